package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Stream is a stream of the catalogue with the settings of this configuration, or a stream that the
// configuration adds.
type Stream struct {
	schemas.Stream

	At         Pos                    // position of the stream's entry in the file; zero if the file has none
	Origin     string                 // scheme://host of an absolute path; "": that of the surface
	Credential Auth                   // the stream's own credential, if any
	Headers    map[string]wire.Secret // sent with each request of the stream; they override those of the surface
	Mode       schemas.Mode           // "": the pipeline's mode
	Schema     Contract               // overrides the pipeline's contract
	Changes    *bool                  // nil: the pipeline's setting
	Columns    []ColumnMask           // masks of the stream's columns; they override those of the pipeline
	Settings   []Setting              // the stream's entry in the file, for display
}

var (
	streamName  = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$`)
	placeholder = regexp.MustCompile(`\{([^{}/]+)\}`)
)

var modes = []string{"merge", "append", "replace", "history"}

// streams returns the streams of the catalogue with the settings of the file, then the streams that the file adds.
func (r *reader) streams(n ast.Node, sources []Source) []Stream {
	all := make([]Stream, 0, len(r.Catalogue)+8)
	at := map[string]int{}
	for i, s := range r.Catalogue {
		at[s.Name] = i
		all = append(all, Stream{Stream: s})
	}
	if n == nil {
		return r.bounded(all)
	}
	es, _ := r.entries(n, "streams")
	for _, e := range es {
		i, known := at[e.key]
		if !known {
			i = len(all)
			all = append(all, r.addition(e, all))
			at[e.key] = i
		}
		r.override(&all[i], e, known)
	}
	r.checkStreams(all, at)
	return r.bounded(all)
}

// The largest values of max_columns and max_tables. A destination may have lower limits. // Invariant 6
const (
	maxColumns = 20_000
	maxTables  = 2000
)

// bounded applies max_columns and max_tables of the file to streams that set none.
func (r *reader) bounded(all []Stream) []Stream {
	for i := range all {
		s := &all[i]
		s.MaxColumns, s.MaxTables = cmp.Or(s.MaxColumns, r.maxColumns), cmp.Or(s.MaxTables, r.maxTables)
	}
	return all
}

// addition returns a new stream with defaults.
func (r *reader) addition(e entry, all []Stream) Stream {
	if !streamName.MatchString(e.key) || len(e.key) > 63 {
		r.fault(e.at, "stream %q: want module.resource in lower case%s", e.key, didYouMean(e.key, names(all)))
	}
	module, _, _ := strings.Cut(e.key, ".")
	return Stream{Stream: schemas.Stream{
		Table:   schemas.Table{Name: strings.ReplaceAll(e.key, ".", "_")},
		Name:    e.key,
		Module:  module,
		Surface: schemas.SurfaceApp,
		Method:  "GET",
		Class:   schemas.ClassList,
		Enabled: true,
	}}
}

func names(all []Stream) []string {
	ns := make([]string, len(all))
	for i, s := range all {
		ns[i] = s.Name
	}
	return ns
}

// override applies an entry of the file to a stream. The parameter known says whether the catalogue has the stream. If
// not, the entry must have a path.
func (r *reader) override(s *Stream, e entry, known bool) {
	s.At = e.at
	what := "stream " + e.key
	if known && !s.Class.Readable() {
		r.fault(e.at, "%s is a %s endpoint and can never be read", what, s.Class)
		return
	}
	pathSet, ok := r.imported(s, e, what)
	f := r.streamFields(s, what, schemas.StatedConfigured, &pathSet)
	f["imported"] = func(ast.Node) {} // already read, with lower priority
	for key, read := range map[string]func(ast.Node){
		"headers":     func(n ast.Node) { s.Headers = r.headers(n, what+" headers") },
		"select":      func(n ast.Node) { s.Rules.Select = r.selects(n, what+" select") },
		"filter":      func(n ast.Node) { s.Rules.Filter = r.filter(n, what+" filter") },
		"mode":        func(n ast.Node) { s.Mode = schemas.Mode(r.choice(n, what+" mode", modes...)) },
		"schema":      func(n ast.Node) { s.Schema = r.contract(n, what+" schema") },
		"max_columns": func(n ast.Node) { s.MaxColumns = r.number(n, what+" max_columns", 1, maxColumns) },
		"max_tables":  func(n ast.Node) { s.MaxTables = r.number(n, what+" max_tables", 1, maxTables) },
		"changes":     func(n ast.Node) { v := r.boolean(n, what+" changes"); s.Changes = &v },
	} {
		f[key] = read
	}
	ok = r.streamMapping(s, e.value, f, what) && ok
	r.checkHeaders(e.value, what, s.Headers, s.Credential)
	if len(r.faults) == 0 {
		s.Settings = r.settings(e.value)
	}
	if ok && !known && !pathSet {
		r.fault(e.at, "%s is not in the catalogue and has no path%s", what, didYouMean(e.key, r.catalogueNames()))
	}
}

// streamFields returns the keys that both a stream's entry and its `imported` block may have. The parameter statedBy
// says which of the two is read; it is recorded with each fact. If the key `path` is read, *pathSet becomes true.
func (r *reader) streamFields(s *Stream, what, statedBy string, pathSet *bool) fields {
	stated := func(fact string) {
		s.Stated = maps.Clone(s.Stated)
		if s.Stated == nil {
			s.Stated = map[string]string{}
		}
		s.Stated[fact] = statedBy
	}
	return fields{
		"surface": func(n ast.Node) { s.Surface = schemas.Surface(r.choice(n, what+" surface", "v2", "app")) },
		"path":    func(n ast.Node) { r.path(s, n, what+" path"); *pathSet = true; stated("path") },
		"method":  func(n ast.Node) { s.Method = r.choice(n, what+" method", "GET", "POST") },
		"class": func(n ast.Node) {
			s.Class = schemas.Class(r.choice(n, what+" class", "list", "board", "detail", "singleton", "lookup", "report"))
		},
		"records": func(n ast.Node) { s.Records = r.pointers(n, what+" records"); stated("records") },
		"context": func(n ast.Node) {
			if v, ok := r.text(n, what+" context"); ok {
				s.Context = v.value
			}
		},
		"key":         func(n ast.Node) { s.Key = schemas.KeyColumns(values(r.texts(n, what+" key"))); stated("key") },
		"pagination":  func(n ast.Node) { s.Pagination = r.pagination(n, what+" pagination"); stated("pagination") },
		"incremental": func(n ast.Node) { s.Incremental = r.incremental(n, what+" incremental"); stated("incremental") },
		"months":      func(n ast.Node) { s.Months = r.months(n, what+" months"); stated("months") },
		"parent": func(n ast.Node) {
			if v, ok := r.text(n, what+" parent"); ok {
				s.Parent = v.value
				stated("parent")
			}
		},
		"description": func(n ast.Node) {
			if v, ok := r.text(n, what+" description"); ok {
				s.Description = v.value
			}
		},
		"reread":  func(n ast.Node) { s.RereadPasses = r.number(n, what+" reread", 1, 10_000) },
		"columns": func(n ast.Node) { r.columns(s, n, what+" columns") },
		"auth":    func(n ast.Node) { r.streamAuth(s, n, what+" auth") },
	}
}

// streamMapping reads the keys of a stream, and then its parameters: where they are sent depends on the path and
// the method.
func (r *reader) streamMapping(s *Stream, n ast.Node, f fields, what string) bool {
	var body, params ast.Node
	f["body"] = func(n ast.Node) { body = n }
	f["params"] = func(n ast.Node) { params = n }
	ok := r.mapping(n, what, f)
	if params != nil || body != nil {
		s.Params = append(r.params(params, s, what), r.body(body, what)...)
	}
	return ok
}

// imported reads the block that `penstock import` writes. It is called before the other keys of the entry are read,
// because these keys override the block.
func (r *reader) imported(s *Stream, e entry, what string) (pathSet, ok bool) {
	m, isMap := r.resolve(e.value).(ast.MapNode)
	if !isMap {
		return false, true
	}
	for it := m.MapRange(); it.Next(); {
		if keyText(it.Key()) != "imported" {
			continue
		}
		what += " imported"
		f := r.streamFields(s, what, schemas.StatedImported, &pathSet)
		delete(f, "method") // Invariant 9: only the catalogue can class a POST as a read
		f["from"] = func(n ast.Node) { r.scalar(n, what+" from") }
		f["operation"] = func(n ast.Node) { r.scalar(n, what+" operation") }
		f["off"] = func(n ast.Node) {
			if v, ok := r.text(n, what+" off"); ok {
				s.Enabled, s.Reason = false, v.value
			}
		}
		ok = r.streamMapping(s, it.Value(), f, what)
		if !s.Enabled {
			s.Params = append(s.Params, unfed(s)...)
		}
		return pathSet, ok
	}
	return false, true
}

// unfed returns a parameter without a value for each placeholder of the path that has no parameter. A disabled
// stream may lack them.
func unfed(s *Stream) []schemas.Param {
	var all []schemas.Param
	for _, m := range placeholder.FindAllStringSubmatch(s.Path, -1) {
		if !slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.Name == m[1] }) {
			all = append(all, schemas.Param{Name: m[1], In: "path"})
		}
	}
	return all
}

func (r *reader) catalogueNames() []string {
	ns := make([]string, len(r.Catalogue))
	for i, s := range r.Catalogue {
		ns[i] = s.Name
	}
	return ns
}

func values(all []scalar) []string {
	var vs []string
	for _, s := range all {
		vs = append(vs, s.value)
	}
	return vs
}

// path reads a path below the base URL, or an absolute URL. [Config.Clients] decides which credential a request to
// an absolute URL gets.
func (r *reader) path(s *Stream, n ast.Node, what string) {
	v, ok := r.text(n, what)
	if !ok {
		return
	}
	if strings.Contains(v.value, "://") {
		u, bad := origin(v.value)
		if bad != "" {
			r.fault(v.at, "%s %s", what, bad)
			return
		}
		s.Origin, s.Path = u.Scheme+"://"+u.Host, u.Path
		if s.Path == "" {
			s.Path = "/"
		}
		for _, k := range slices.Sorted(maps.Keys(u.Query())) {
			s.Params = append(s.Params, schemas.Param{Name: k, In: "query", Value: u.Query().Get(k)})
		}
		return
	}
	s.Origin, s.Path = "", v.value
	switch {
	case !strings.HasPrefix(v.value, "/"):
		r.fault(v.at, "%s %q: want a leading / or an absolute URL", what, v.raw)
	case strings.ContainsAny(v.value, "?#%\\ ") || strings.Contains(v.value, "//") || strings.Contains(v.value, "/."):
		r.fault(v.at, "%s %q: want plain segments; a query goes under params", what, v.raw)
	}
}

func (r *reader) pointers(n ast.Node, what string) []string {
	var all []string
	for _, v := range r.list(n, what) {
		s, ok := r.scalar(v, what)
		if !ok {
			continue
		}
		if s.value != "" && !strings.HasPrefix(s.value, "/") {
			r.fault(s.at, "%s %q: want a JSON pointer, such as /data/items", what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	return all
}

func (r *reader) pagination(n ast.Node, what string) schemas.Pagination {
	p := schemas.Pagination{}
	types := schemas.Paging().Pagers()
	word := func(to *string, key string) func(ast.Node) {
		return func(n ast.Node) {
			if s, ok := r.text(n, what+" "+key); ok {
				*to = s.value
			}
		}
	}
	if _, block := r.resolve(n).(ast.MapNode); !block {
		p.Type = r.choice(n, what, types...)
		return p
	}
	r.mapping(n, what, fields{
		"type":  func(n ast.Node) { p.Type = r.choice(n, what+" type", types...) },
		"page":  word(&p.Page, "page"),
		"size":  word(&p.Size, "size"),
		"limit": func(n ast.Node) { p.Limit = r.number(n, what+" limit", 1, 100_000) },
		"zero":  func(n ast.Node) { p.Zero = r.boolean(n, what+" zero") },
		"query": func(n ast.Node) { p.Query = r.boolean(n, what+" query") },
		"order": word(&p.Order, "order"),
	})
	return p
}

func (r *reader) streamAuth(s *Stream, n ast.Node, what string) {
	if _, block := r.resolve(n).(ast.MapNode); block {
		s.Credential = r.auth(n, what, "token", "api_key")
		if s.Auth == schemas.AuthNone {
			s.Auth = schemas.AuthBearer // otherwise the credential would not be sent
		}
		return
	}
	switch r.choice(n, what, "bearer", "none", "whitelabel") {
	case "bearer":
		s.Auth = schemas.AuthBearer
	case "none":
		s.Auth = schemas.AuthNone
	case "whitelabel":
		s.Auth = schemas.AuthWhiteLabel
	}
}
