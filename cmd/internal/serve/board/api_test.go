package board_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/stretchr/testify/require"
)

func (s *served) do(t *testing.T, method, path, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		}
		req.Header.Set(header[i], header[i+1])
	}
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close(); c.CloseIdleConnections() })
	return resp
}

func described(t *testing.T, s *served) (*openapi3.T, routers.Router) {
	t.Helper()
	text, err := io.ReadAll(s.do(t, "GET", "/api/v1/openapi.json", "").Body)
	require.NoError(t, err)
	doc, err := openapi3.NewLoader().LoadFromData(text)
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	router, err := legacy.NewRouter(doc)
	require.NoError(t, err)
	return doc, router
}

func valid(t *testing.T, router routers.Router, resp *http.Response) []byte {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	route, params, err := router.FindRoute(resp.Request)
	require.NoError(t, err, resp.Request.URL.Path)
	in := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: resp.Request, Route: route, PathParams: params},
		Status:                 resp.StatusCode, Header: resp.Header, Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	in.SetBodyBytes(body)
	require.NoError(t, openapi3filter.ValidateResponse(t.Context(), in), "%s: %s", resp.Request.URL.Path, body)
	return body
}

func TestAPIAnswersAsDescribed(t *testing.T) {
	full := telling(3, plain)
	empty := &told{}
	for name, f := range map[string]*told{"full": full, "empty": empty} {
		s := boardOf(t, f, "")
		doc, router := described(t, s)
		for path, item := range doc.Paths.Map() {
			if path == "/events" {
				continue
			}
			asked := strings.NewReplacer("{run}", full.runs[0].ID, "{pipeline}", "nightly", "{stream}", "crm.leads").Replace(path)
			method := "GET"
			if item.Post != nil {
				method = "POST"
			}
			resp := s.do(t, method, asked, "")
			valid(t, router, resp)
			want := map[string]int{"GET": 200, "POST": 202}[method]
			if name == "empty" && strings.Contains(path, "{run}") {
				want = 404
			}
			require.Equal(t, want, resp.StatusCode, "%s %s %s", name, method, path)
		}
	}
	require.Len(t, full.noted(), 6)
}

func TestAPIRefuses(t *testing.T) {
	f := telling(2, plain)
	s := boardOf(t, f, "")
	_, router := described(t, s)
	for _, path := range []string{"/api/v1/runs?limit=0", "/api/v1/runs?limit=201", "/api/v1/runs?offset=x", "/api/v1/runs?pipelin=nightly", "/api/v1/rejects?all=maybe", "/api/v1/status?x=1", "/api/v1/history?range=2d", "/api/v1/history?source=a&stream=b", "/api/v1/history/series?by=table", "/api/v1/runs?a=%zz"} {
		resp := s.do(t, "GET", path, "")
		require.Equal(t, 400, resp.StatusCode, path)
		valid(t, router, resp)
	}
	require.Equal(t, 404, s.do(t, "GET", "/api/v1/nothing", "").StatusCode)
	f.err = errBusy
	resp := s.do(t, "POST", "/api/v1/pipelines/nightly/run", "")
	require.Equal(t, 409, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	valid(t, router, resp)
}

func TestAPIPages(t *testing.T) {
	s := boardOf(t, telling(7, plain), "")
	for _, list := range []string{"pipelines", "streams", "runs", "rejects", "schema", "webhooks"} {
		var sizes []int
		for next := "/api/v1/" + list + "?limit=3"; next != ""; {
			var part struct {
				Items []any
				Total int
				Next  string
			}
			require.NoError(t, json.NewDecoder(s.do(t, "GET", next, "").Body).Decode(&part))
			require.Equal(t, 7, part.Total, list)
			sizes, next = append(sizes, len(part.Items)), part.Next
		}
		require.Equal(t, []int{3, 3, 1}, sizes, list)
	}
}
