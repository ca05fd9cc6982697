package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

func benchPage() []byte {
	var b bytes.Buffer
	b.WriteString(`{"object":"list","has_more":true,"data":[`)
	for i := range 1000 {
		if i > 0 {
			b.WriteByte(',')
		}
		_, _ = fmt.Fprintf(&b, `{"id":%d,"name":"Zoë Ñandú %d","email":"zoe.%d@example.test","amount":"%d.50","note":%q}`, i, i*7, i*13, i*31, bytes.Repeat([]byte{byte('a' + i%26)}, 600))
	}
	b.WriteString("]}")
	return b.Bytes()
}

func BenchmarkRead(b *testing.B) {
	plain := benchPage()
	packed := pack(b, 5, plain)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body := plain
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			body = packed
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	for _, identity := range []bool{true, false} {
		b.Run(map[bool]string{true: "plain", false: "gzip"}[identity], func(b *testing.B) {
			c, err := New(Options{BaseURL: srv.URL, Allow: reads, Rate: budget.Rate{Limit: 1_000_000, Window: time.Second}, Identity: identity})
			require.NoError(b, err)
			defer func() { _ = c.Close() }()
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				resp, err := c.Read(b.Context(), contacts)
				require.NoError(b, err)
				require.Len(b, resp.Body, len(plain))
				resp.Release()
			}
		})
	}
}
