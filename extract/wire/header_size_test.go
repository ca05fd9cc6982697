package wire

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A header or trailer that is too long is an error at once. The request is not repeated. // Invariants 6 and 15
func TestLongHeadersAreRefused(t *testing.T) {
	long := strings.Repeat("v", 1000)
	for name, tt := range map[string]struct {
		fields  int
		trailer bool
		want    string
	}{
		"usual":           {fields: 50},
		"1 MB":            {fields: 1000, want: "header"},
		"a usual trailer": {fields: 2, trailer: true},
		"a long trailer":  {fields: 1000, trailer: true, want: "trailer"},
	} {
		for _, second := range []bool{false, true} {
			if second && tt.trailer {
				continue
			}
			t.Run(name, func(t *testing.T) {
				var asked atomic.Int64
				c := overTLS(t, second, func(w http.ResponseWriter, _ *http.Request) {
					asked.Add(1)
					prefix := ""
					if tt.trailer {
						w.Header().Set("Content-Type", "application/json")
						_, _ = w.Write([]byte(`[{"id":1}]`))
						_ = http.NewResponseController(w).Flush()
						prefix = http.TrailerPrefix
					}
					for i := range tt.fields {
						w.Header().Set(prefix+"X-H"+strings.Repeat("a", i%9)+string(rune('A'+i%26))+string(rune('A'+i/26%26))+string(rune('A'+i/676)), long)
					}
					if !tt.trailer {
						w.Header().Set("Content-Type", "application/json")
						_, _ = w.Write([]byte(`[{"id":1}]`))
					}
				})
				resp, err := c.Read(t.Context(), contacts)
				if tt.want == "" {
					require.NoError(t, err)
					resp.Release()
					return
				}
				faultOf(t, err, Malformed)
				require.ErrorContains(t, err, tt.want)
				require.EqualValues(t, 1, asked.Load())
			})
		}
	}
}

func overTLS(t *testing.T, second bool, h http.HandlerFunc) *Client {
	srv := httptest.NewUnstartedServer(h)
	srv.EnableHTTP2 = second
	srv.StartTLS()
	t.Cleanup(srv.Close)
	roots := srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	return client(t, srv.URL, func(o *Options) { o.TLS = &tls.Config{RootCAs: roots} })
}
