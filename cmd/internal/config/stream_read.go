package config

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

var (
	moduleName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	streamName  = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$`)
	placeholder = regexp.MustCompile(`\{([^{}/]+)\}`)
)

// readStreams returns the streams of the catalogue with the settings of the file, then the streams that the file adds.
func (r *reader) readStreams(v value) []Stream {
	all := make([]Stream, 0, len(r.Catalogue)+8)
	at := map[string]int{}
	for i, s := range r.Catalogue {
		at[s.Name] = i
		all = append(all, Stream{Stream: s})
	}
	if !v.given() {
		return all
	}
	es, _ := v.entries()
	for _, e := range es {
		i, known := at[e.key]
		if !known {
			i = len(all)
			all = append(all, addition(e, all))
			at[e.key] = i
		}
		all[i].override(e, known)
	}
	r.checkStreams(all, at)
	return all
}

// addition returns a new stream with defaults.
func addition(e entry, all []Stream) Stream {
	if !streamName.MatchString(e.key) || len(e.key) > 63 {
		e.fault(e.at, "stream %q: want module.resource in lower case%s", e.key, DidYouMean(e.key, names(all)))
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

// override applies an entry of the file to a stream. If the catalogue does not have the stream (`known` is false), the
// entry must have a path.
func (s *Stream) override(e entry, known bool) {
	s.At = e.at
	v := e.as("stream " + e.key)
	if known && !s.Class.Readable() {
		v.fault(e.at, "%s is a %s endpoint and can never be read", v.what, s.Class)
		return
	}
	located, ok := s.readImported(v)
	f := s.fields(schemas.StatedConfigured, &located)
	maps.Copy(f, fields{
		"imported":    func(value) {}, // readImported has already read it, because the other keys override it
		"headers":     set(&s.Headers, headers),
		"select":      set(&s.Rules.Select, selects),
		"filter":      set(&s.Rules.Filter, filter),
		"mode":        choice(&s.Mode, schemas.Merge, schemas.Append, schemas.Replace, schemas.History),
		"schema":      set(&s.Schema, readContract),
		"max_columns": number(&s.MaxColumns, 1, maxColumns),
		"max_tables":  number(&s.MaxTables, 1, maxTables),
		"checks":      s.readChecks,
		"changes":     func(v value) { is := v.boolean(); s.Changes = &is },
	})
	ok = s.readFields(v, f) && ok
	checkHeaders(v, s.Headers, s.Credential)
	if len(v.r.faults) == 0 {
		s.Settings = settings(v)
	}
	if ok && !known && !located {
		v.fault(e.at, "%s is not in the catalogue and has no path%s", v.what, DidYouMean(e.key, v.r.catalogueNames()))
	}
}

// fields returns the keys that may be in a stream's entry and in its `imported` block. The parameter `statedBy` is
// recorded with each fact: it says whether the entry or the block states the fact. If the key `path` is read, *located
// becomes true.
func (s *Stream) fields(statedBy string, located *bool) fields {
	f := fields{
		"surface":     choice(&s.Surface, schemas.SurfaceV2, schemas.SurfaceApp),
		"path":        func(v value) { s.readPath(v); *located = true },
		"method":      choice(&s.Method, "GET", "POST"),
		"class":       choice(&s.Class, "list", "board", "detail", "singleton", "lookup", "report"),
		"records":     set(&s.Records, pointers),
		"context":     text(&s.Context),
		"key":         func(v value) { s.Key = schemas.KeyColumns(v.words()) },
		"pagination":  set(&s.Pagination, readPagination),
		"incremental": set(&s.Incremental, readIncremental),
		"months":      set(&s.Months, readMonths),
		"parent":      text(&s.Parent),
		"description": text(&s.Description),
		"reread":      number(&s.RereadPasses, 1, 10_000),
		"columns":     s.readColumns,
		"auth":        s.readAuth,
	}
	for _, fact := range []string{"path", "records", "key", "pagination", "incremental", "months", "parent"} {
		read := f[fact]
		f[fact] = func(v value) { read(v); s.Stated = with(s.Stated, fact, statedBy) }
	}
	return f
}

// readFields reads the keys of a stream, and then its parameters. The parameters come last, because the path and the
// method decide where they are sent.
func (s *Stream) readFields(v value, f fields) bool {
	var ofBody, ofParams value
	f["body"], f["params"] = keep(&ofBody), keep(&ofParams)
	ok := v.mapping(f)
	if ofParams.given() || ofBody.given() {
		s.Params = append(params(ofParams, s), body(ofBody)...)
	}
	return ok
}

// readImported reads the block that `penstock import` writes. It is called before the other keys of the entry are read,
// because these keys override the block.
func (s *Stream) readImported(v value) (located, ok bool) {
	m, isMap := v.resolve().(ast.MapNode)
	if !isMap {
		return false, true
	}
	for it := m.MapRange(); it.Next(); {
		if keyText(it.Key()) != "imported" {
			continue
		}
		f := s.fields(schemas.StatedImported, &located)
		delete(f, "method") // Invariant 9: only the catalogue can class a POST as a read
		f["from"] = func(v value) { v.scalar() }
		f["operation"] = f["from"]
		f["off"] = func(v value) {
			if why, ok := v.text(); ok {
				s.Enabled, s.Reason = false, why.value
			}
		}
		ok = s.readFields(v.child("imported", it.Value()), f)
		if !s.Enabled {
			s.Params = append(s.Params, unfed(s)...)
		}
		return located, ok
	}
	return false, true
}

// unfed finds the placeholders in the path that have no parameter, and returns a parameter without a value for each. A
// disabled stream gets these parameters, so that each placeholder of its path has one.
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

// readPath reads a path below the base URL, or an absolute URL. [Config.Clients] decides which credential a request to
// an absolute URL gets.
func (s *Stream) readPath(v value) {
	path, ok := v.text()
	if !ok {
		return
	}
	if strings.Contains(path.value, "://") {
		u, bad := origin(path.value)
		if bad != "" {
			v.fault(path.at, "%s %s", v.what, bad)
			return
		}
		s.Origin, s.Path = u.Scheme+"://"+u.Host, cmp.Or(u.Path, "/")
		for _, k := range slices.Sorted(maps.Keys(u.Query())) {
			s.Params = append(s.Params, schemas.Param{Name: k, In: "query", Value: u.Query().Get(k)})
		}
		return
	}
	s.Origin, s.Path = "", path.value
	switch {
	case !strings.HasPrefix(path.value, "/"):
		v.fault(path.at, "%s %q: want a leading / or an absolute URL", v.what, path.raw)
	case strings.ContainsAny(path.value, "?#%\\ ") || strings.Contains(path.value, "//") || strings.Contains(path.value, "/."):
		v.fault(path.at, "%s %q: want plain segments; a query goes under `params`", v.what, path.raw)
	}
}

func pointers(v value) []string {
	var all []string
	for _, item := range v.list() {
		s, ok := item.scalar()
		if !ok {
			continue
		}
		if s.value != "" && !strings.HasPrefix(s.value, "/") {
			v.fault(s.at, "%s %q: want a JSON pointer, such as /data/items", v.what, s.raw)
			continue
		}
		all = append(all, s.value)
	}
	return all
}

func readPagination(v value) schemas.Pagination {
	p := schemas.Pagination{}
	types := schemas.Paging().Pagers()
	if !v.isMapping() {
		p.Type = v.choice(types...)
		return p
	}
	v.mapping(fields{
		"type":  choice(&p.Type, types...),
		"page":  text(&p.Page),
		"size":  text(&p.Size),
		"limit": number(&p.Limit, 1, 100_000),
		"zero":  boolean(&p.Zero),
		"query": boolean(&p.Query),
		"order": text(&p.Order),
	})
	return p
}

func (s *Stream) readAuth(v value) {
	if v.isMapping() {
		s.Credential = readAuth(v, "token", "api_key")
		if s.Auth == schemas.AuthNone {
			s.Auth = schemas.AuthBearer // otherwise the credential would not be sent
		}
		return
	}
	switch v.choice("bearer", "none", "whitelabel") {
	case "bearer":
		s.Auth = schemas.AuthBearer
	case "none":
		s.Auth = schemas.AuthNone
	case "whitelabel":
		s.Auth = schemas.AuthWhiteLabel
	}
}

// checkStreams reports errors of a whole stream, or of several streams together. It gets a map from the name of a
// stream to its index.
func (r *reader) checkStreams(streams []Stream, indexes map[string]int) {
	tables := map[string]string{}
	for _, s := range streams {
		if s.Class.Readable() && s.Table.Name != "" {
			table := strings.ToLower(s.Table.Name)
			if other, taken := tables[table]; taken && s.At != (Pos{}) {
				r.fault(s.At, "stream %s would share the table %s with %s", s.Name, s.Table.Name, other)
			}
			tables[table] = s.Name
		}
		if s.At != (Pos{}) && s.Path != "" {
			r.checkRoute(s)
			r.checkParent(s, streams, indexes)
			r.checkMonths(s)
		}
	}
}

// checkRoute rejects a stream that would request an endpoint that the catalogue classes as a write. The name of the
// stream does not matter. // Invariant 9
func (r *reader) checkRoute(s Stream) {
	for _, c := range r.Catalogue {
		if !c.Class.Readable() && strings.EqualFold(c.Method, s.Method) && sameRoute(c.Path, s.Path) {
			r.fault(s.At, "stream %s would call %s %s, a %s endpoint", s.Name, c.Method, c.Path, c.Class)
			return
		}
	}
	for _, m := range placeholder.FindAllStringSubmatch(s.Path, -1) {
		if !slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.In == "path" && p.Name == m[1] }) {
			r.fault(s.At, "stream %s has no parameter for {%s} in its path", s.Name, m[1])
		}
	}
}

// sameRoute reports whether two paths can be the same request. A segment with a parameter, such as {id}, can be equal
// to any segment.
func sameRoute(x, b string) bool {
	as, bs := strings.Split(strings.Trim(x, "/"), "/"), strings.Split(strings.Trim(b, "/"), "/")
	if len(as) != len(bs) {
		return false
	}
	for i := range as {
		if !strings.Contains(as[i], "{") && !strings.Contains(bs[i], "{") && !strings.EqualFold(as[i], bs[i]) {
			return false
		}
	}
	return true
}

// checkParent reports a parent that does not exist, and a stream that is its own ancestor.
func (r *reader) checkParent(s Stream, streams []Stream, indexes map[string]int) {
	if s.Parent == "" {
		if slices.ContainsFunc(s.Params, func(p schemas.Param) bool { return p.From != "" }) {
			r.fault(s.At, "stream %s takes parameters from a parent but has no parent", s.Name)
		}
		return
	}
	up := s.Name
	for range streams {
		i, ok := indexes[up]
		if !ok || !streams[i].Class.Readable() {
			r.fault(s.At, "stream %s: no stream %q to be its parent%s", s.Name, up, DidYouMean(up, readable(streams)))
			return
		}
		if up = streams[i].Parent; up == "" {
			return
		}
	}
	r.fault(s.At, "stream %s is its own ancestor", s.Name)
}
