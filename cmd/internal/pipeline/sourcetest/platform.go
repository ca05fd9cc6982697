package sourcetest

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

// Platform is a sandbox that listens at an address, and the streams that a test reads from it.
type Platform struct {
	Sandbox *sandbox.Server
	Streams []schemas.Stream // parents before their children

	t         *testing.T
	catalogue *schemas.Catalogue
	url       string
}

// NewPlatform starts a sandbox. The test reads the streams for which keep() returns true.
func NewPlatform(t *testing.T, o sandbox.Options, keep func(schemas.Stream) bool) *Platform {
	t.Helper()
	s, err := sandbox.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	streams := parentsFirst(slices.DeleteFunc(catalogue.Streams(), func(s schemas.Stream) bool {
		return !s.Readable() || !s.Enabled || s.Class == schemas.ClassFile || !keep(s)
	}))
	return &Platform{Sandbox: s, Streams: streams, t: t, catalogue: catalogue, url: server.URL}
}

// Connect returns a new client of the sandbox.
func (p *Platform) Connect() *extract.Client {
	open := func(token string, surface schemas.Surface) *wire.Client {
		var routes []wire.Route
		for _, s := range p.catalogue.Streams() {
			if s.Readable() && s.Surface == surface {
				routes = append(routes, wire.Route{Method: s.Method, Path: s.Path})
			}
		}
		w, err := wire.New(wire.Options{
			Name: "sandbox", BaseURL: p.url, Allow: routes, Credential: wire.Bearer(wire.Secret(token)),
			Rate: budget.Rate{Limit: 5000, Window: time.Second},
		})
		require.NoError(p.t, err)
		p.t.Cleanup(func() { _ = w.Close() })
		return w
	}
	client, err := extract.New(extract.Config{
		V2: open("sk_sandbox_readonly", schemas.SurfaceV2), App: open("pat_sandbox_readonly", schemas.SurfaceApp),
		Selected: p.Streams, Find: p.catalogue.Find, Dir: p.t.TempDir(),
	})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Do changes something in the sandbox.
func (p *Platform) Do(method, path string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, nil)
	require.NoError(p.t, err)
	token := sandbox.WritingToken
	if strings.HasPrefix(path, "/v2/") {
		token = sandbox.WritingKey
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	require.Less(p.t, resp.StatusCode, 300, "%s %s", method, path)
}

func parentsFirst(streams []schemas.Stream) []schemas.Stream {
	depth := func(s schemas.Stream) int {
		n := 0
		for s.Parent != "" {
			i := slices.IndexFunc(streams, func(o schemas.Stream) bool { return o.Name == s.Parent })
			if i < 0 {
				break
			}
			s = streams[i]
			n++
		}
		return n
	}
	slices.SortStableFunc(streams, func(a, b schemas.Stream) int { return depth(a) - depth(b) })
	return streams
}
