package schemas

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestNewCatalogueFindsFaults(t *testing.T) {
	id := Param{Name: "id", In: "path", From: "/id"}
	tests := []struct {
		name  string
		spoil func(s *Stream)
		want  string
	}{
		{"name without module", func(s *Stream) { s.Name = "posts" }, `stream posts: name: want <module>.<resource> in snake case`},
		{"name with two underscores", func(s *Stream) { s.Name = "blog.a__b" }, `stream blog.a__b: name: want <module>.<resource> in snake case`},
		{"other module", func(s *Stream) { s.Module = "crm" }, `stream blog.posts: module: "crm" is not the part of the name before the dot`},
		{"unknown surface", func(s *Stream) { s.Surface = "v3" }, `stream blog.posts: surface: "v3": want one of "v2", "app"`},
		{"unknown class", func(s *Stream) { s.Class = "map" }, `stream blog.posts: class: "map": want one of "list", "board", "detail", "singleton", "lookup", "report", "file", "session", "write"`},
		{"unknown credential", func(s *Stream) { s.Auth = "basic" }, `stream blog.posts: auth: "basic": want one of "", "none", "whitelabel"`},
		{"a read by PUT", func(s *Stream) { s.Method = "PUT" }, `stream blog.posts: method: a stream cannot use PUT`},
		{"relative path", func(s *Stream) { s.Path = "api/posts" }, `stream blog.posts: path: "api/posts" begins neither with a slash nor with a scheme`},
		{"no table", func(s *Stream) { s.Table.Name = "" }, `stream blog.posts: name: the table name "" must have 1 to 48 bytes`},
		{"disabled without reason", func(s *Stream) { s.Enabled = false }, `stream blog.posts: reason: say why the stream is not enabled`},
		{"records that is not a pointer", func(s *Stream) { s.Records = []string{"data"} }, `stream blog.posts: records: "data" is not a JSON pointer`},
		{"records with a bad escape", func(s *Stream) { s.Records = []string{"/a~2"} }, `stream blog.posts: records: "/a~2" is not a JSON pointer`},
		{"context", func(s *Stream) { s.Context = "a b" }, `stream blog.posts: context: "a b" is not in snake case`},
		{"volatile key", func(s *Stream) { s.Volatile = []string{"id"} }, `stream blog.posts: volatile: id is part of the key`},
		{"window without a key", func(s *Stream) { s.Key, s.Window = nil, true }, `stream blog.posts: window: needs a key, because the rows outside the window stay in the table, and later passes find them by the key`},
		{"months without a year", func(s *Stream) { s.Months.Month = "m" }, `stream blog.posts: months: want the parameters month and year`},
		{"months without a key", func(s *Stream) { s.Key, s.Months = nil, Months{Month: "m", Year: "y"} }, `stream blog.posts: months: needs a key, because the rows of other months stay in the table, and later passes find them by the key`},
		{"pager", func(s *Stream) { s.Pagination.Type = "pages" }, `stream blog.posts: pagination.type: "pages": want one of "", "none", "page", "offset", "cursor", "since_id", "link"`},
		{"page size", func(s *Stream) { s.Pagination.Limit = -1 }, `stream blog.posts: pagination.limit: -1 is negative`},
		{"type", func(s *Stream) { s.Types = map[string]string{"at": "datetime"} }, `stream blog.posts: types.at: parse type "datetime": want bool, int64, float64, decimal(p,s), date, timestamp, text or json`},
		{"missing path parameter", func(s *Stream) { s.Path = "/api/posts/{id}" }, `stream blog.posts: params: the path has {id}, but no parameter sets it`},
		{"superfluous path parameter", func(s *Stream) { s.Parent, s.Params = "blog.authors", []Param{id} }, `stream blog.posts: params: the path has no {id}`},
		{"body of a GET", func(s *Stream) { s.Params = []Param{{Name: "id", In: "body", Value: "1"}} }, `stream blog.posts: params: id: a GET has no body`},
		{"parameter twice", func(s *Stream) {
			s.Params = []Param{{Name: "id", In: "query", Value: "1"}, {Name: "id", In: "query", Value: "1"}}
		}, `stream blog.posts: params: id is given twice`},
		{"parameter without place", func(s *Stream) { s.Params = []Param{{Name: "id", Value: "1"}} }, `stream blog.posts: params: "": want one of "path", "query", "body"`},
		{"parameter without name", func(s *Stream) { s.Params = []Param{{In: "query", Value: "1"}} }, `stream blog.posts: params: a parameter has no name`},
		{"parameter without value", func(s *Stream) { s.Params = []Param{{Name: "id", In: "query"}} }, `stream blog.posts: params: id: set from or value`},
		{"parameter without parent", func(s *Stream) { s.Params = []Param{{Name: "id", In: "query", From: "/id"}} }, `stream blog.posts: params: id: from needs a parent`},
		{"parameter from and value", func(s *Stream) { s.Params = []Param{{Name: "id", In: "query", From: "/id", Value: "1"}} }, `stream blog.posts: params: id: from and value exclude each other`},
		{"parameter with a from that is not a pointer", func(s *Stream) {
			s.Parent, s.Params = "blog.authors", []Param{{Name: "id", In: "query", From: "id"}}
		}, `stream blog.posts: params: id: from "id" is not a JSON pointer`},
		{"unknown parent", func(s *Stream) { s.Parent = "blog.nobody" }, `stream blog.posts: parent: there is no stream "blog.nobody"`},
		{"parent that writes", func(s *Stream) { s.Parent = "blog.create_author" }, `stream blog.posts: parent: blog.create_author is a write and cannot be read`},
		{"own parent", func(s *Stream) { s.Parent = "blog.posts" }, `stream blog.posts: parent: the parents form a cycle: blog.posts, blog.posts`},
		{"name twice", func(s *Stream) { *s = stream("blog.authors"); s.Path, s.Table.Name = "/api/a", "blog_a" }, `stream blog.authors: name: two streams have this name`},
		{"path twice", func(s *Stream) { s.Path = "/api/blog/authors" }, `stream blog.posts: path: GET /api/blog/authors is already the request of blog.authors`},
		{"table twice", func(s *Stream) { s.Table.Name = "blog_authors" }, `stream blog.posts: table: blog_authors is already the table of blog.authors`},
		{"write with a table", func(s *Stream) { s.Class, s.Enabled = ClassWrite, false }, `stream blog.posts: class: a write has no table, key, parent or records`},
		{"write that is enabled", func(s *Stream) { s.Class, s.Table = ClassWrite, Table{} }, `stream blog.posts: enabled: a write cannot be read`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			write := Stream{Name: "blog.create_author", Module: "blog", Surface: SurfaceApp, Method: "POST", Path: "/api/x", Class: ClassWrite}
			s := stream("blog.posts")
			tt.spoil(&s)
			_, err := NewCatalogue([]Stream{stream("blog.authors"), write, s})
			require.EqualError(t, err, tt.want)
		})
	}
}

func TestNewCatalogueFindsCycles(t *testing.T) {
	a, b := stream("blog.a"), stream("blog.b")
	a.Parent, b.Parent = "blog.b", "blog.a"
	_, err := NewCatalogue([]Stream{a, b})
	require.EqualError(t, err, "stream blog.a: parent: the parents form a cycle: blog.a, blog.b, blog.a\n"+
		"stream blog.b: parent: the parents form a cycle: blog.b, blog.a, blog.b")
}

func TestLoadErrorsHavePositions(t *testing.T) {
	const head = "group: Blog\nmodule: blog\nsurface: app\n"
	tests := []struct{ name, yaml, want string }{
		{"syntax", "group: [", "blog.yaml:1: "},
		{"empty", "", "blog.yaml: want one document"},
		{"unknown field", head + "streams:\n  - name: blog.posts\n    requset: GET /api/posts\n", `blog.yaml:6: unknown field "requset"`},
		{"duplicate write", head + "writes:\n  blog.a: POST /api/a\n  blog.a: POST /api/b\n", `blog.yaml:6:3: blog.a is defined twice`},
		{"wrong type", head + "streams: 3\n", "blog.yaml:4: unexpected int `3`"},
		{"writes in a list", head + "writes: [blog.a, blog.b]\n", "blog.yaml:4:9: want a mapping from names to METHOD /path"},
		{"writes in a text", head + "writes: blog.a\n", "blog.yaml:4:9: want a mapping from names to METHOD /path"},
		{"request", head + "streams:\n  - name: blog.posts\n    request: /api/posts\n", `blog.yaml:5:11: stream blog.posts: request "/api/posts": want METHOD /path`},
		{"column of two types", head + "streams:\n  - name: blog.posts\n    request: GET /api/posts\n    types: {bool: [a], text: [a]}\n", `blog.yaml:5:11: stream blog.posts: types: a is declared twice`},
		{"request of a write", head + "writes:\n  blog.save: /api/posts\n", `blog.yaml:5:3: stream blog.save: request "/api/posts": want METHOD /path`},
		{"faulty stream", head + "streams:\n  - class: list\n    name: blog.posts\n    request: GET /api/{id}\n", `blog.yaml:6:11: stream blog.posts: params: the path has {id}, but no parameter sets it`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := load(fstest.MapFS{"blog.yaml": {Data: []byte(tt.yaml)}})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestLoadReportsEverything(t *testing.T) {
	const bad = "group: B\nmodule: blog\nsurface: app\nstreams:\n  - name: blog.a\n    request: GET\n  - name: blog.b\n    request: POST\n"
	_, err := load(fstest.MapFS{"a.yaml": {Data: []byte("group: A\nwhat: 1\n")}, "b.yaml": {Data: []byte(bad)}})
	for _, want := range []string{"a.yaml:2: ", "b.yaml:5:11: ", "b.yaml:7:11: "} {
		require.ErrorContains(t, err, want)
	}
}
