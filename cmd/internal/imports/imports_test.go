package imports

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var load = sync.OnceValues(schemas.Load)

// catalogue returns the embedded catalogue.
func catalogue(t testing.TB) []schemas.Stream {
	t.Helper()
	c, err := load()
	require.NoError(t, err)
	return c.Streams()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func source(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return data
}

// define defines the streams of a document. It returns them, and the outcome of each operation by its method and
// path.
func define(t *testing.T, d *Description, err error, o Options) ([]Stream, map[string]Outcome) {
	t.Helper()
	require.NoError(t, err)
	o.Catalogue = catalogue(t)
	streams, outcomes, err := Define(d, o)
	require.NoError(t, err)
	all := map[string]Outcome{}
	for _, out := range outcomes {
		all[out.Operation] = out
	}
	require.Len(t, outcomes, len(d.Operations), "every operation has an outcome")
	return streams, all
}

const head = `version: 1
sources: {main: {app: {base_url: "https://app.example.com", auth: {token: t}}}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {all: {from: main, to: w}}
`

// configured() parses a configuration, which must have no faults.
func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse([]byte(text), config.Input{
		File: "pipelines.yaml", Env: func(string) (string, bool) { return "", false },
		Catalogue: catalogue(t), Schemes: []string{"duckdb"},
	})
	require.NoError(t, err, text)
	return c
}

func TestOpenAPI(t *testing.T) {
	d, err := OpenAPI("shop.yaml", source(t, "shop.yaml"))
	streams, outcomes := define(t, d, err, Options{File: "shop.yaml"})
	text, _, err := Merge("streams.yaml", nil, streams)
	require.NoError(t, err)
	golden(t, "shop.golden.yaml", string(text))

	for operation, want := range map[string]string{
		"POST /orders": Writes, "DELETE /orders/{order_id}": Writes, "GET /reports/sales.csv": Skips,
		"GET /orders": Adds, "GET /orders/{order_id}/refunds/{refund_id}/lines": Adds,
		"GET /orders/{order_id}": Off, "GET /orders/{order_id}/cancel": Off, "GET /regions/{country}/taxes": Off, "GET /search": Off,
	} {
		require.Equal(t, want, outcomes[operation].Action, operation)
	}
	require.Equal(t, 14, outcomes["GET /orders"].Line, "the line of the operation")

	c := configured(t, head+string(text))
	orders, ok := c.Stream("shop.orders")
	require.True(t, ok)
	require.Equal(t, "https://demo.shop.example", orders.Origin)
	require.Equal(t, schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 250}, orders.Pagination)
	require.Equal(t, `Sum in ${CURRENCY}, "gross"`, orders.Descriptions["total"])
	require.Equal(t, map[string]string{"path": "imported", "records": "imported", "key": "imported", "pagination": "imported"}, orders.Stated)
	lines, _ := c.Stream("shop.order_refund_lines")
	require.Equal(t, []schemas.Param{{Name: "order_id", In: "path", From: "/_context/order_id"}, {Name: "refund_id", In: "path", From: "/id"}}, lines.Params)
	taxes, _ := c.Stream("shop.region_taxes")
	require.False(t, taxes.Enabled)
	require.Contains(t, taxes.Reason, "{country}")
	for _, s := range c.Streams[len(catalogue(t)):] {
		require.Equal(t, "GET", s.Method, s.Name) // Invariant 9
	}
}

// A document may also be JSON.
func TestOpenAPIForms(t *testing.T) {
	d, err := OpenAPI("a.json", []byte(`{"openapi":"3.0.3","servers":[{"url":"https://a.example"}],"paths":{"/x":{"get":{"responses":{"200":{"description":"","content":{"application/json":{"schema":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer","nullable":true}}}}}}}}}}}}`))
	streams, _ := define(t, d, err, Options{File: "a.json"})
	require.Len(t, streams, 1)
	require.Equal(t, "api.x", streams[0].Name)
	require.Equal(t, []string{""}, streams[0].Records)
	require.Equal(t, map[string]string{"id": "int64"}, streams[0].Types)
}

func TestPostman(t *testing.T) {
	d, err := Postman("shop.json", source(t, "shop.postman.json"))
	streams, outcomes := define(t, d, err, Options{File: "shop.json"})
	text, _, err := Merge("streams.yaml", nil, streams)
	require.NoError(t, err)
	golden(t, "shop.postman.golden.yaml", string(text))
	require.Equal(t, Writes, outcomes["PUT /api/products/{product}"].Action)
	require.Equal(t, Off, outcomes["GET /api/ping"].Action)
	configured(t, head+string(text))
}

// The platform's own description overrides streams of the catalogue. A POST that the catalogue lists as readable
// becomes a stream. A GET that the catalogue lists as a write does not.
func TestPlatform(t *testing.T) {
	var paths []string
	for _, s := range catalogue(t) {
		paths = append(paths, `"`+s.Path+`": {"`+strings.ToLower(s.Method)+`": {"responses": {"200": {"description": ""}}}}`)
	}
	paths = append(paths, `"/api/leads/{id}/gifts": {"get": {"responses": {}}}`, `"/api/gadgets": {"get": {"responses": {}}}`)
	// One path may have several methods, so each endpoint is a document of its own here.
	for i, path := range paths[:len(paths)-2] {
		d, err := OpenAPI("p.json", []byte(`{"openapi":"3.1.0","info":{"title":"P","version":"1"},"paths":{`+path+`}}`))
		streams, _ := define(t, d, err, Options{File: "p.json"})
		s := catalogue(t)[i]
		if !s.Readable() {
			require.Empty(t, streams, s.Name) // Invariant 9
			continue
		}
		require.Len(t, streams, 1, s.Name)
		require.True(t, streams[0].Override)
		require.Equal(t, s.Name, streams[0].Name)
	}
	d, err := OpenAPI("p.json", []byte(`{"openapi":"3.1.0","info":{"title":"P","version":"1"},"paths":{`+strings.Join(paths[len(paths)-2:], ",")+`}}`))
	streams, _ := define(t, d, err, Options{File: "p.json", Surface: schemas.SurfaceApp})
	require.Len(t, streams, 2)
	require.Equal(t, "crm.leads", streams[1].Parent)
	require.Equal(t, "crm.lead_gifts", streams[1].Name)
	require.Equal(t, "gadgets.gadgets", streams[0].Name)
}

func TestBadDocuments(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 300)
	tests := []struct{ name, in, want, hint string }{
		{"empty", " \n", "d: empty", ""},
		{"cut off", "{\n \"openapi\": \"3.1.0\",\n \"paths\": {,}}", "d:3:12: not JSON", ""},
		{"bad yaml", "openapi: 3.1.0\npaths:\n\t/x: {}\n", "d:", ""},
		{"no paths", `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{}}`, "d: it describes no paths", ""},
		{"another format", `{"a":1}`, "no member `openapi`", ""},
		{"swagger", "\nswagger: '2.0'\npaths: {}", "d:2: Swagger 2.0", "swagger2openapi"},
		{"later version", `{"openapi":"4.0.0","paths":{"/x":{}}}`, "OpenAPI 4.0.0; want 3.0 or 3.1", ""},
		{"too deep", deep, "nested more than 200 levels", ""},
		{"a file", "openapi: 3.1.0\npaths:\n  /x:\n    $ref: ../../../etc/passwd\n", `d:4: $ref "../../../etc/passwd" leads out`, "bundle"},
		{"a url", "openapi: 3.1.0\npaths:\n  /x:\n    get:\n      responses:\n        '200': {$ref: 'http://169.254.169.254/x'}\n", `d:6: $ref "http://169.254.169.254/x" leads out`, "bundle"},
		{"a dangling ref", "openapi: 3.1.0\npaths:\n  /x:\n    get: {responses: {'200': {$ref: '#/components/responses/no'}}}\n", "d:", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := OpenAPI("d", []byte(tt.in))
			var e *Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.Error(), tt.want)
			require.Contains(t, e.Hint, tt.hint)
			require.NotContains(t, e.Error(), "\n")
		})
	}
	_, err := Postman("d", []byte(`{"info":{},"requests":[]}`))
	require.ErrorContains(t, err, "no member `item`")
	_, _, err = Define(&Description{Operations: []Operation{{Method: "GET", Path: "/x"}}}, Options{File: "d"})
	require.ErrorContains(t, err, "the host of the API")
}

// A document with circular references is read to its end.
func TestCircles(t *testing.T) {
	d, err := OpenAPI("d.yaml", []byte(`
openapi: 3.1.0
info: {title: Tree, version: "1"}
servers: [{url: "https://tree.example"}]
paths:
  /nodes: {get: {responses: {"200": {description: "", content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Node"}}}}}}}}
components:
  schemas:
    Node: {allOf: [{$ref: "#/components/schemas/Base"}, {type: object, properties: {id: {type: integer}, children: {type: array, items: {$ref: "#/components/schemas/Node"}}}}]}
    Base: {type: object, properties: {up: {$ref: "#/components/schemas/Node"}, twin: {anyOf: [{$ref: "#/components/schemas/Base"}, {type: "null"}]}}}
`))
	streams, _ := define(t, d, err, Options{})
	require.Len(t, streams, 1)
	require.Equal(t, []string{"id"}, streams[0].Key)
}

func FuzzOpenAPI(f *testing.F) {
	f.Add(source(f, "shop.yaml"))
	f.Add([]byte(`{"openapi":"3.1.0","paths":{"/x":{"get":{"responses":{"200":{"description":""}}}}}}`))
	fuzz(f, OpenAPI)
}

func FuzzPostman(f *testing.F) {
	f.Add(source(f, "shop.postman.json"))
	f.Add([]byte(`{"item":[{"request":"http://a/b"}]}`))
	fuzz(f, Postman)
}

// fuzz reads any document. Either the document is refused, or its streams only read data and can be merged into a file.
func fuzz(f *testing.F, read func(string, []byte) (*Description, error)) {
	cat := catalogue(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := read("d", data)
		if err != nil {
			var e *Error
			require.ErrorAs(t, err, &e)
			return
		}
		streams, _, err := Define(d, Options{File: "d", BaseURL: "https://a.example/b", Catalogue: cat})
		if err != nil {
			return
		}
		for _, s := range streams {
			require.Equal(t, "GET", s.Method) // Invariant 9
		}
		text, _, err := Merge("f", nil, streams)
		require.NoError(t, err)
		_, changes, err := Merge("f", text, streams)
		require.NoError(t, err)
		for _, c := range changes {
			require.Equal(t, Same, c.Action, string(text))
		}
	})
}
