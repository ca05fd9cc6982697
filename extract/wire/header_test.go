package wire

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVendorMediaTypes(t *testing.T) {
	for _, kind := range []string{"application/json", "application/vnd.api+json", "application/hal+json", "application/vnd.acme.v3+json; charset=utf-8"} {
		subtype, _, _ := strings.Cut(kind, ";")
		c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			accepts := r.Header.Get("Accept")
			if !strings.Contains(accepts, subtype) && !(strings.HasSuffix(subtype, "+json") && strings.Contains(accepts, "application/*+json")) {
				text(406, "text/plain", "not acceptable")(w, r)
				return
			}
			text(200, kind, page)(w, r)
		}), nil)
		resp, err := c.Read(t.Context(), contacts)
		require.NoError(t, err, kind)
		require.Equal(t, page, string(resp.Body))
	}
}

// Configured headers and the credential go only to the client's origin, also after a redirect to this origin. //
// Invariant 10
func TestHeadersAreSent(t *testing.T) {
	var elsewhere http.Header
	other := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere = r.Header.Clone(); good(w, r) }), nil)
	for name, tt := range map[string]struct {
		header, scheme string
		in, want       string
	}{
		"as usual":                  {"", "", "Authorization", "Bearer sk_test_0123456789"},
		"another scheme":            {"Authorization", "Token", "Authorization", "Token sk_test_0123456789"},
		"no scheme":                 {"Authorization", "", "Authorization", "sk_test_0123456789"},
		"another header":            {"X-Api-Key", "", "X-Api-Key", "sk_test_0123456789"},
		"another header and scheme": {"X-Auth", "Key", "X-Auth", "Key sk_test_0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []http.Header
			to := "/b"
			c := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.Header.Clone())
				if r.URL.Path == "/a" {
					http.Redirect(w, r, to, http.StatusFound)
					return
				}
				good(w, r)
			}), func(o *Options) {
				o.AuthHeader, o.AuthScheme = tt.header, tt.scheme
				o.Headers = map[string]Secret{"X-Tenant": "42", "Accept": "application/vnd.acme+json"}
			})
			_, err := c.Read(t.Context(), Request{Path: "/a"})
			require.NoError(t, err)
			require.Len(t, got, 2)
			for _, h := range got {
				require.Equal(t, tt.want, h.Get(tt.in))
				require.Equal(t, "42", h.Get("X-Tenant"))
				require.Equal(t, "application/vnd.acme+json", h.Get("Accept"))
				if tt.in != "Authorization" {
					require.Empty(t, h.Get("Authorization"))
				}
			}
			to = other.base.String() + "/b"
			_, err = c.Read(t.Context(), Request{Path: "/a"})
			faultOf(t, err, Refused)
			require.Nil(t, elsewhere, "a request to another origin")
			_, err = c.Read(t.Context(), Request{Path: "/b", Anonymous: true})
			require.NoError(t, err)
			require.Empty(t, got[len(got)-1].Get(tt.in), "a public endpoint gets no credential")
		})
	}
}

func TestHeadersAreRefused(t *testing.T) {
	for name, value := range map[string]Secret{
		"Host": "evil.test", "content-length": "3", "Transfer-Encoding": "chunked", "CONNECTION": "close", "Upgrade": "h2c", "TE": "trailers",
		"Authorization": "Basic x", "cookie": "a=b", "Proxy-Authorization": "Basic x", "Accept-Encoding": "br", "Range": "bytes=0-1", "If-None-Match": "x",
		"X-Line": "a\r\nX-Other: b", "X Space": "a", "": "a", "X:Y": "a",
	} {
		_, err := New(Options{Name: "test", BaseURL: "https://a.example", Allow: reads, Headers: map[string]Secret{name: value}})
		require.ErrorContains(t, err, "open source test: header ", name)
		require.NotContains(t, err.Error(), "evil.test")
	}
	for _, o := range []Options{
		{AuthHeader: "X-Api-Key", Headers: map[string]Secret{"x-api-key": "a"}},
		{Headers: map[string]Secret{"X-A": "a", "x-a": "b"}},
		{AuthHeader: "Cookie"}, {AuthHeader: "Host"},
	} {
		o.Name, o.BaseURL, o.Allow = "test", "https://a.example", reads
		_, err := New(o)
		require.ErrorContains(t, err, "open source test: header ")
	}
	_, err := New(Options{Name: "test", BaseURL: "https://a.example", Allow: reads, AuthHeader: "X-Api-Key", Headers: map[string]Secret{"X-Tenant": "42", "User-Agent": "me"}})
	require.NoError(t, err)
}
