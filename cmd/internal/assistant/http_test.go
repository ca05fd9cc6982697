package assistant

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/assistant/assistanttest"
	"github.com/penstock-data/penstock/cmd/internal/browse"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve/access"
)

// bearer sends a token with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// dial connects a client to the handler at an address.
func dial(ctx context.Context, url, token string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	return c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
}

// The tokens of the daemon and their roles decide what a caller may read.
func TestHandler(t *testing.T) {
	guard := access.New(access.Options{})
	s := httptest.NewServer(New(Options{Browser: browse.Browser{Opener: opened(t), Only: open.Selection{To: "warehouse"}}}).Handler(guard))
	defer s.Close()
	rows := map[string]any{"sql": "SELECT name FROM crm_leads WHERE id = 1"}

	local, err := dial(t.Context(), s.URL, "") // the daemon has no token
	require.NoError(t, err)
	_, failed := assistanttest.Call[any](t, local, "query", rows)
	require.Contains(t, failed, "penstock serve has no token, so it returns no rows\nhint: set `serve: {auth:")
	list, failed := assistanttest.Call[ListOutput](t, local, "list_tables", nil)
	require.Empty(t, failed)
	require.Len(t, list.Tables, 1)

	guard.Define([]access.Token{
		{Name: "scraper", Secret: "scraper-token-0123", Role: access.Metrics}, {Name: "reader", Secret: "reader-token-0123", Role: access.Read},
		{Name: "analyst", Secret: "analyst-token-0123", Role: access.Query}, {Name: "owner", Secret: "owner-token-0123", Role: access.Operate},
	})
	_, err = local.CallTool(t.Context(), &mcp.CallToolParams{Name: "list_tables"})
	require.Error(t, err, "the daemon has tokens now")
	for _, token := range []string{"", "wrong-token-0123", "scraper-token-0123"} {
		_, err := dial(t.Context(), s.URL, token)
		require.Error(t, err, token)
	}
	reader, err := dial(t.Context(), s.URL, "reader-token-0123")
	require.NoError(t, err)
	_, failed = assistanttest.Call[any](t, reader, "query", rows)
	require.Contains(t, failed, "does not allow to read rows\nhint: set `role: query`")
	_, failed = assistanttest.Call[StatusOutput](t, reader, "status", nil)
	require.Empty(t, failed)
	for _, token := range []string{"analyst-token-0123", "owner-token-0123"} {
		c, err := dial(t.Context(), s.URL, token)
		require.NoError(t, err)
		out, failed := assistanttest.Call[browse.Result](t, c, "query", rows)
		require.Empty(t, failed)
		require.Equal(t, [][]any{{"Ada"}}, out.Rows)
	}
}

// A page of another site, a large request, and a request of a proxy without a token are refused.
func TestHandlerRefuses(t *testing.T) {
	guard := access.New(access.Options{})
	h := New(Options{Browser: browse.Browser{Opener: opened(t)}}).Handler(guard)
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, test := range map[string]struct {
		body   string
		header map[string]string
		want   int
	}{
		"control":         {call, nil, http.StatusOK},
		"another site":    {call, map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		"another site, 2": {call, map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		"a form":          {call, map[string]string{"Content-Type": "text/plain"}, http.StatusUnsupportedMediaType},
		"a proxy":         {call, map[string]string{"X-Forwarded-For": "192.0.2.1"}, http.StatusForbidden},
		"too large":       {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", maxRequest) + `"}}`, nil, http.StatusRequestEntityTooLarge},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(test.body))
		r.RemoteAddr = "127.0.0.1:4000"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range test.header {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, err := io.ReadAll(w.Body)
		require.NoError(t, err)
		require.Equal(t, test.want, w.Code, "%s: %s", name, body)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost/mcp", nil))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
}
