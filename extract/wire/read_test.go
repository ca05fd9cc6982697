package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadRequest(t *testing.T) {
	var got *http.Request
	c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		good(w, r)
	}), nil)
	resp, err := c.Read(t.Context(), Request{
		Path: "/v2/contacts/{id}", Params: map[string]string{"id": "con 8/é"[:4] + "é"}, Query: url.Values{"page": {"2"}, "per_page": {"100"}},
	})
	require.NoError(t, err)
	require.Equal(t, page, string(resp.Body))
	require.Equal(t, 1, resp.Attempts)
	require.Equal(t, "/v2/contacts/con%20%C3%A9?page=2&per_page=100", got.RequestURI)
	require.Equal(t, "Bearer sk_test_0123456789", got.Header.Get("Authorization"))
	require.Regexp(t, `^application/json, .*application/\*\+json;q=`, got.Header.Get("Accept"))
	require.Equal(t, "gzip", got.Header.Get("Accept-Encoding"))
	resp.Release()
	resp.Release()
}

func TestReadPostsJSON(t *testing.T) {
	var body, authorization string
	c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := make([]byte, 100)
		n, _ := r.Body.Read(b)
		body, authorization = r.Header.Get("Content-Type")+string(b[:n]), r.Header.Get("Authorization")
		good(w, r)
	}), nil)
	_, err := c.Read(t.Context(), Request{Method: "POST", Path: "/api/lead/leadboard", Body: []byte(`{"pipeline_id":1}`), Anonymous: true})
	require.NoError(t, err)
	require.Equal(t, `application/json{"pipeline_id":1}`, body)
	require.Empty(t, authorization)
}

func TestReadClasses(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		class  Class
		want   string
	}{
		{"bad key", jsonText(401, `{"message":"Unauthenticated."}`), Auth, "read /v2/contacts: 401 unauthorized: Unauthenticated."},
		{"module off, with status 401", jsonText(401, `{"status":"error","message":"Your Add-on Is Not Activated!"}`), NotEntitled, ""},
		{"expired token", jsonText(401, `{"status":"error","message":"Token has expired"}`), Auth, ""},
		{"payment required", jsonText(402, `{}`), NotEntitled, "read /v2/contacts: 402 payment required"},
		{"forbidden", jsonText(403, `{"message":"This action is unauthorized."}`), NotEntitled, ""},
		{"forbidden without a message", jsonText(403, ``), NotEntitled, "read /v2/contacts: 403 forbidden"},
		{"validation, with status 403", jsonText(403, `{"status":0,"message":"The workspace id field is required."}`), Invalid, ""},
		{"permission, with status 400", jsonText(400, `{"success":false,"message":"Permission denied","errors":null}`), NotEntitled, ""},
		{"permission, in the member errors", jsonText(400, `{"success":false,"message":"error","errors":"Permission denied"}`), NotEntitled, "read /v2/contacts: 400 bad request: Permission denied"},
		{"not found, with status 400", jsonText(400, `{"success":false,"message":"Lead Not Found","errors":404}`), Missing, ""},
		{"module missing", jsonText(404, `{"status":"error","message":"CRM Module Not Found!"}`), NotEntitled, ""},
		{"module off, with status 422", jsonText(422, `{"message":"The module is not enabled for your plan"}`), NotEntitled, ""},
		{"deleted object", jsonText(404, `{"message":"No query results for model [App\\Models\\Deal] 99"}`), Missing, ""},
		{"deleted cursor", jsonText(410, `{}`), Missing, ""},
		{"validation", jsonText(422, `{"message":"Validation error","errors":{"pipeline_id":["The pipeline id field is required."]}}`), Invalid, "read /v2/contacts: 422 unprocessable entity: The pipeline id field is required."},
		{"v2 error object", jsonText(400, `{"error":{"code":"invalid_request","message":"limit must be <= 100"}}`), Invalid, "read /v2/contacts: 400 bad request: limit must be <= 100"},
		{"wrong method", jsonText(405, `{"message":"The GET method is not supported"}`), Invalid, ""},
		{"not verified", jsonText(409, `{"message":"Your email address is not verified."}`), NotEntitled, ""},
		{"challenge page", text(403, "text/html", `<html><title>Just a moment</title>`), NotEntitled, "read /v2/contacts: 403 forbidden: Just a moment"},
		{"login page", text(200, "text/html", `<!doctype html><form action="/login"><input type="password"></form>`), Auth, ""},
		{"another HTML page", text(200, "text/html", `<!doctype html><title>Dashboard</title>`), NotData, `read /v2/contacts: body is HTML, not JSON: page titled "Dashboard" (3 attempts)`},
		{"warning before JSON", text(200, "application/json", "<br />\n<b>Warning</b>: x {\"data\":[]}"), NotData, ""},
		{"text", text(200, "text/plain", "OK"), Malformed, `read /v2/contacts: body is not JSON: "OK" (3 attempts)`},
		{"empty body", text(200, "application/json", ""), Malformed, "read /v2/contacts: empty body (3 attempts)"},
		{"cut JSON", jsonText(200, `{"data":[{"id":1`), Malformed, "read /v2/contacts: body ends early (3 attempts)"},
		{"another charset", text(200, "application/json; charset=ISO-8859-1", "{\"a\":\"\xe9\"}"), Malformed, `read /v2/contacts: body is in charset "iso-8859-1", not UTF-8`},
		{"server fault", jsonText(500, `{"message":"Server Error"}`), Transient, "read /v2/contacts: 500 internal server error: Server Error (10 attempts)"},
		{"server fault, with status 400", jsonText(400, `{"success":false,"message":"Something went wrong"}`), Transient, "read /v2/contacts: 400 bad request: Something went wrong (3 attempts)"},
		{"gateway", text(524, "text/html", `<title>A timeout occurred</title>`), Transient, "read /v2/contacts: 524 unknown status: A timeout occurred (10 attempts)"},
		{"request timeout", jsonText(408, ``), Transient, ""},
		{"unused redirect", jsonText(304, ``), Malformed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := virtualClient(t, tt.answer, nil)
				_, err := c.Read(t.Context(), contacts)
				faultOf(t, err, tt.class)
				if tt.want != "" {
					require.EqualError(t, err, tt.want)
				}
			})
		})
	}
}

func TestReadAccepts(t *testing.T) {
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   string
	}{
		{"text/plain", text(200, "text/plain", page), page},
		{"text/html that is JSON", text(200, "text/html; charset=UTF-8", page), page},
		{"a byte order mark", text(200, "application/json", "\xef\xbb\xbf"+page), page},
		{"two byte order marks", text(200, "application/json", "\xef\xbb\xbf\xef\xbb\xbf \n"+page), page},
		{"a bare list", jsonText(200, "[]\n"), "[]\n"},
		{"null", jsonText(200, "null"), "null"},
		{"no content", text(204, "", ""), ""},
		{"created", jsonText(201, page), page},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, tt.answer, nil)
			resp, err := c.Read(t.Context(), contacts)
			require.NoError(t, err)
			require.Equal(t, tt.want, string(resp.Body))
		})
	}
}

func TestReadFile(t *testing.T) {
	pdf := Request{Path: "/v2/invoices/{id}/pdf", Params: map[string]string{"id": "inv_1"}, File: true}
	c := open(t, text(200, "application/pdf", "\x1f\x8b\x08%PDF"), nil)
	resp, err := c.Read(t.Context(), pdf)
	require.NoError(t, err)
	require.Equal(t, "\x1f\x8b\x08%PDF", string(resp.Body))

	c = open(t, text(200, "text/html", `<input name="password">`), nil)
	_, err = c.Read(t.Context(), pdf)
	faultOf(t, err, Auth)
}

func TestReadRefusesWhatIsNotListed(t *testing.T) {
	c := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }), nil)
	for _, r := range []Request{
		{Path: "/v2/other"},
		{Method: "DELETE", Path: "/v2/contacts"},
		{Method: "POST", Path: "/v2/contacts"},
		{Method: "get", Path: "/v2/contacts"},
		{Path: "/v2/contacts/{id}"},
		{Path: "/v2/contacts/{id}", Params: map[string]string{"id": "1", "x": "2"}},
		{Path: "/v2/contacts", Params: map[string]string{"id": "1"}},
		{Path: "/v2/contacts/1"},
	} {
		_, err := c.Read(t.Context(), r)
		faultOf(t, err, Refused)
	}
	for _, id := range []string{"", ".", "..", "a/b", `a\b`, "%2e%2e", "a%2fb", "a\x00", "a\n", strings.Repeat("9", 513)} {
		_, err := c.Read(t.Context(), Request{Path: "/v2/contacts/{id}", Params: map[string]string{"id": id}})
		faultOf(t, err, Refused)
	}
	require.Zero(t, c.Governor().Stats().Sent)
}

func TestReadChecks(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tries := 0
		c := virtualClient(t, good, nil)
		r := contacts
		r.Check = func(body []byte) error {
			if tries++; tries < 3 {
				return fmt.Errorf("offset %d: bad", len(body))
			}
			return nil
		}
		resp, err := c.Read(t.Context(), r)
		require.NoError(t, err)
		require.Equal(t, 3, resp.Attempts)

		tries = -10
		_, err = c.Read(t.Context(), r)
		faultOf(t, err, Malformed)
		require.EqualError(t, err, "read /v2/contacts: offset 19: bad (3 attempts)")
	})
}

func TestReadOutlastsBurst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		end := time.Now().Add(45 * time.Second)
		var n atomic.Int64
		c := virtualClient(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Now().Before(end) {
				n.Add(1)
				w.WriteHeader([]int{500, 502, 503, 504}[n.Load()%4])
				return
			}
			good(w, r)
		}), nil)
		resp, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		require.LessOrEqual(t, resp.Attempts, 10)
	})
}

func TestReadDuringMaintenance(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := inTurn(text(503, "text/html", "<h1>Service Unavailable</h1>"))
		c := virtualClient(t, h, nil)
		begin := time.Now()
		failed := 0
		for range 136 {
			if _, err := c.Read(t.Context(), contacts); err != nil {
				faultOf(t, err, Transient)
				failed++
			}
		}
		require.Equal(t, 136, failed)
		require.Less(t, time.Since(begin), 20*time.Minute)
		require.LessOrEqual(t, h.count(), 2*outageFailures)
	})
}

func TestReadThrottled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		slow := jsonText(429, `{"message":"Too Many Attempts."}`, "Retry-After", "3")
		h := inTurn(slow, slow, good)
		c := virtualClient(t, h, nil)
		resp, err := c.Read(t.Context(), contacts)
		require.NoError(t, err)
		require.Equal(t, 3, resp.Attempts)
		for i := 1; i < 3; i++ {
			gap := h.times[i].Sub(h.times[i-1])
			require.GreaterOrEqual(t, gap, 3*time.Second)
			require.Less(t, gap, 4*time.Second)
		}
	})
}

func TestReadParked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := virtualClient(t, jsonText(429, `{}`, "Retry-After", "3600"), nil)
		_, err := c.Read(t.Context(), contacts)
		e := faultOf(t, err, Throttled)
		require.Equal(t, time.Hour, time.Until(e.NotBefore).Round(time.Minute))
		require.Equal(t, 1, e.Attempts)
		_, err = c.Read(t.Context(), contacts)
		require.Zero(t, faultOf(t, err, Throttled).Attempts)
		require.Contains(t, err.Error(), "read /v2/contacts: too many requests, not before 2026-11-21T11:00:0")
	})
}

func TestReadCancelled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := virtualClient(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), nil)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("stopped by a signal"))
		defer cancel()
		begin := time.Now()
		_, err := c.Read(ctx, contacts)
		require.EqualError(t, err, "read /v2/contacts: stopped by a signal")
		require.Equal(t, time.Second, time.Since(begin))
	})
}

func TestReadUnreachable(t *testing.T) {
	c := client(t, "http://127.0.0.1:1", nil)
	_, err := c.Read(t.Context(), Request{Path: "/v2/contacts", Query: url.Values{"q": {"private"}}})
	e := faultOf(t, err, Transient)
	require.Equal(t, 3, e.Attempts)
	require.EqualError(t, err, "read /v2/contacts: connect to 127.0.0.1:1: connection refused (3 attempts)")
}

// The wait for a host that was never reached is shorter than for a host that is down.
func TestReadUnreachableByMany(t *testing.T) {
	c := client(t, "http://127.0.0.1:1", nil)
	begin := time.Now()
	var wg sync.WaitGroup
	for range 2 * outageFailures {
		wg.Go(func() {
			_, err := c.Read(t.Context(), contacts)
			require.ErrorContains(t, err, "connection refused (3 attempts)")
		})
	}
	wg.Wait()
	require.Less(t, time.Since(begin), 15*time.Second)
	require.Zero(t, c.Governor().Stats().GateUntil)
}

func TestReadHeldAtGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := inTurn(jsonText(429, `{}`, "Retry-After", "5"), good)
		c := virtualClient(t, h, nil)
		dial, dials := c.transport.DialContext, atomic.Int64{}
		c.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 2 {
				time.Sleep(time.Second) // the second request connects after the first was refused
			}
			return dial(ctx, network, addr)
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				_, err := c.Read(t.Context(), contacts)
				require.NoError(t, err)
			})
		}
		wg.Wait()
		require.Len(t, h.times, 3)
		require.GreaterOrEqual(t, h.times[1].Sub(h.times[0]), 5*time.Second)
	})
}
