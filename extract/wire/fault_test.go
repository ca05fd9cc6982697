package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

func TestFaultSlow(t *testing.T) {
	trickle := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(time.Second)
		}
	}
	silent := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	never := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	tests := []struct {
		name    string
		answer  http.HandlerFunc
		longest time.Duration
		want    string
	}{
		{"trickle", trickle, 120 * time.Second, "answer came too slowly"},
		{"silence after the header", silent, 30 * time.Second, "answer stalled"},
		{"silence", never, 60 * time.Second, "net/http: timeout awaiting response headers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := virtualClient(t, tt.answer, func(o *Options) { o.MaxAttempts = 1 })
				begin := time.Now()
				_, err := c.Read(t.Context(), contacts)
				faultOf(t, err, Transient)
				require.EqualError(t, err, "read /v2/contacts: "+tt.want)
				require.LessOrEqual(t, time.Since(begin), tt.longest)
			})
		})
	}
}

func TestFaultSlowButLegal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := bytes.Repeat([]byte(" "), 20_000_000)
		c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for at := 0; at < len(body); at += 200_000 {
				_, _ = w.Write(body[at : at+200_000])
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Second)
			}
			_, _ = io.WriteString(w, "{}")
		}), nil)
		begin := time.Now()
		resp, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Equal(t, 1, resp.Attempts)
		require.Equal(t, 100*time.Second, time.Since(begin).Round(time.Second))
		resp.Release()
	})
}

func TestFaultCutPage(t *testing.T) {
	whole := `{"data":[{"id":1,"name":"a"},{"id":2,"name":"b"}]}`
	framings := map[string]func(w http.ResponseWriter, cut int){
		"content length too long": func(w http.ResponseWriter, cut int) {
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			_, _ = io.WriteString(w, whole[:cut])
			panic(http.ErrAbortHandler)
		},
		"content length equals the cut body": func(w http.ResponseWriter, cut int) {
			w.Header().Set("Content-Length", fmt.Sprint(cut))
			_, _ = io.WriteString(w, whole[:cut])
		},
		"chunked without an end": func(w http.ResponseWriter, cut int) {
			_, _ = io.WriteString(w, whole[:cut])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
	}
	for name, cutAt := range framings {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var cut atomic.Int64
				c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					cutAt(w, int(cut.Load()))
				}), func(o *Options) { o.MaxAttempts = 2; o.Rate = budget.Rate{Limit: 100000, Window: time.Second} })
				r := contacts
				r.Check = func(b []byte) error {
					if string(b) != whole {
						return io.ErrUnexpectedEOF
					}
					return nil
				}
				for at := range len(whole) {
					cut.Store(int64(at))
					_, err := c.Read(t.Context(), r)
					require.Error(t, err, "cut at %d", at)
					succeed(t, c) // without a success in between, the failures would count as an outage
				}
			})
		})
	}
}

func TestFaultReset(t *testing.T) {
	reset := func(w http.ResponseWriter, before string) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(conn, before)
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
	for _, before := range []string{
		"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n{\"data\":",
	} {
		t.Run(before, func(t *testing.T) {
			h := inTurn(good, func(w http.ResponseWriter, _ *http.Request) { reset(w, before) }, good)
			c := open(t, h, nil)
			for range 2 {
				resp, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
				require.Equal(t, page, string(resp.Body))
				require.LessOrEqual(t, resp.Attempts, 2)
			}
			require.LessOrEqual(t, h.count(), 3)
		})
	}
}

func TestFaultLoginPage(t *testing.T) {
	login := text(200, "text/html; charset=utf-8", `<!DOCTYPE html><html><head><title>Log in</title></head><body></body></html>`)
	h := inTurn(login)
	c := open(t, h, nil)
	_, err := c.Read(t.Context(), contacts)
	faultOf(t, err, Auth)
	require.Equal(t, 1, h.count())

	h = inTurn(text(302, "text/html", "", "Location", "/login"), login)
	c = open(t, h, nil)
	_, err = c.Read(t.Context(), contacts)
	faultOf(t, err, Auth)
	require.EqualError(t, err, "read /v2/contacts: 302 found: redirect to a login page")
	require.Equal(t, 1, h.count())
}

func TestFaultRedirect(t *testing.T) {
	foreign := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request left the origin") }))
	defer foreign.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{
			foreign.URL + "/v2/contacts", "//" + foreign.Listener.Addr().String() + "/a",
			"https://127.0.0.1/a", "https://user@127.0.0.1/a", "file:///etc/passwd", "gopher://127.0.0.1/", "http://169.254.169.254/a",
			"http://[::1]:80/a", "http://2130706433/a", "/not/listed", "/v2/contacts/../../admin", "/v2/contacts/a%2fb", "",
		} {
			h := inTurn(jsonText(status, "", "Location", location))
			c := open(t, h, nil)
			_, err := c.Read(t.Context(), Request{Path: "/a"})
			require.Error(t, err, location)
			e := err.(*Error)
			require.Contains(t, []Class{Refused, Malformed}, e.Class, "%s: %v", location, err)
			require.LessOrEqual(t, h.count(), 3)
		}
		h := inTurn(jsonText(status, "", "Location", "/a"), good)
		_, err := open(t, h, nil).Read(t.Context(), Request{Method: "POST", Path: "/api/lead/leadboard"})
		faultOf(t, err, Refused)
		require.Equal(t, 1, h.count())
	}
}

func TestFaultRedirectWithin(t *testing.T) {
	var got []string
	to := map[string]string{"/a": "/b", "/b": "/b/2", "/b/2": "/c?page=1&x=y", "/d": "/a"}
	c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.String()+" "+r.Header.Get("Authorization")[:6])
		if next, ok := to[r.URL.Path]; ok {
			http.Redirect(w, r, next, http.StatusFound)
			return
		}
		good(w, r)
	}), nil)
	resp, err := c.Read(t.Context(), Request{Path: "/a", Query: map[string][]string{"page": {"7"}}})
	require.NoError(t, err)
	require.Equal(t, 4, resp.Attempts)
	require.Equal(t, []string{"/a?page=7 Bearer", "/b?page=7 Bearer", "/b/2?page=7 Bearer", "/c?page=7&x=y Bearer"}, got)
	require.EqualValues(t, 4, c.Governor().Stats().Sent)

	_, err = c.Read(t.Context(), Request{Path: "/d"})
	faultOf(t, err, Refused)
	require.EqualError(t, err, "read /d: 302 found: more than 3 redirects (4 attempts)")
}

func pack(t testing.TB, level int, parts ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	require.NoError(t, err)
	for _, p := range parts {
		_, err = w.Write(p)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func TestFaultGzip(t *testing.T) {
	packed := pack(t, 5, []byte(page))
	mark := pack(t, 5, []byte("\xef\xbb\xbf"+page))
	tests := []struct {
		name, encoding string
		body           []byte
		class          Class
	}{
		{"gzip", "gzip", packed, 0},
		{"x-gzip", "X-Gzip", packed, 0},
		{"byte order mark inside", "gzip", mark, 0},
		{"without the header", "", packed, 0},
		{"two members", "gzip", append(pack(t, 5, []byte(page[:9])), pack(t, 5, []byte(page[9:]))...), 0},
		{"compressed twice", "gzip", pack(t, 5, packed), Malformed},
		{"compressed twice, without the header", "", pack(t, 5, packed), Malformed},
		{"cut", "gzip", packed[:len(packed)-9], Malformed},
		{"damaged", "gzip", append(bytes.Clone(packed[:len(packed)-8]), "12345678"...), Malformed},
		{"not gzip", "gzip", []byte(page), Malformed},
		{"brotli, which was not requested", "br", []byte("\x8b\x02\x80{}\x03"), Malformed},
		{"deflate, which was not requested", "deflate", []byte{0xab, 0xae, 5, 0}, Malformed},
		{"two encodings", "gzip, gzip", packed, Malformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := virtualClient(t, text(200, "application/json", string(tt.body), "Content-Encoding", tt.encoding), nil)
				resp, err := c.Read(t.Context(), contacts)
				if tt.class == 0 {
					require.NoError(t, err)
					require.Equal(t, page, string(resp.Body))
					resp.Release()
					return
				}
				faultOf(t, err, tt.class)
			})
		})
	}
}

func TestFaultBomb(t *testing.T) {
	zeros := make([]byte, 1<<20)
	parts := make([][]byte, 128)
	for i := range parts {
		parts[i] = zeros
	}
	members := bytes.Repeat(pack(t, 1), 6<<20/len(pack(t, 1)))
	for name, body := range map[string][]byte{
		"dense":         pack(t, 9, parts...),
		"empty members": members,
	} {
		t.Run(name, func(t *testing.T) {
			h := inTurn(text(200, "application/json", string(body), "Content-Encoding", "gzip"))
			c := open(t, h, func(o *Options) { o.MaxBody = 4 << 20; o.MaxAttempts = 1 })
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := c.Read(t.Context(), contacts)
			require.EqualError(t, err, "read /v2/contacts: "+errTooBig.Error())
			require.Equal(t, Malformed, err.(*Error).Class)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100<<20))
			require.Equal(t, 1, h.count())
		})
	}
}

func TestFaultTooBig(t *testing.T) {
	small := func(o *Options) { o.MaxBody = 1000 }
	for name, answer := range map[string]http.HandlerFunc{
		"announced": jsonText(200, "["+strings.Repeat(" ", 1000)+"]"),
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			for range 100 {
				_, _ = io.WriteString(w, strings.Repeat(" ", 100))
				_ = http.NewResponseController(w).Flush()
			}
		},
		"error page": text(500, "text/html", strings.Repeat(" ", 2000)),
	} {
		t.Run(name, func(t *testing.T) {
			h := inTurn(answer)
			_, err := open(t, h, small).Read(t.Context(), contacts)
			faultOf(t, err, Malformed)
			require.Equal(t, 1, h.count())
		})
	}
	resp, err := open(t, jsonText(200, "["+strings.Repeat(" ", 998)+"]"), small).Read(t.Context(), contacts)
	require.NoError(t, err)
	require.Len(t, resp.Body, 1000)
}

func TestFaultSharedBuffers(t *testing.T) {
	c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, `{"page":%q}`, r.URL.Query().Get("page"))
	}), nil)
	var held []*Response
	for i := range 20 {
		resp, err := c.Read(t.Context(), Request{Path: "/a", Query: map[string][]string{"page": {fmt.Sprint(i)}}})
		require.NoError(t, err)
		held = append(held, resp)
	}
	for i, resp := range held {
		require.Equal(t, fmt.Sprintf(`{"page":"%d"}`, i), string(resp.Body))
		resp.Release()
	}
}
