package imports

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Options describe the API of a document.
type Options struct {
	File      string           // name of the document, for messages
	From      string           // name that each stream stores for the document; "": the document's title
	BaseURL   string           // URL of the API; has priority over the URLs in the document
	Surface   schemas.Surface  // surface of the platform that the document describes; "": detect it
	Module    string           // module of streams that are not in the catalogue; "": derive it from the title
	Origins   []string         // scheme://host of each configured surface
	Catalogue []schemas.Stream // every endpoint of the platform, including those that change data
	Select    Selection        // the operations to import
	Entries   []Entry          // the existing streams of the pipelines.yaml; they keep their names
}

// Stream is a stream as a document describes it.
type Stream struct {
	schemas.Stream

	From      string // the document's title
	Operation string // method and path, as the document writes them
	Override  bool   // the stream is in the catalogue, and the document overrides some of its keys

	item *Shape // shape of one record; nil: unknown
	line int
}

// Outcome is the result for one operation.
type Outcome struct {
	Operation string `json:"operation"`
	Line      int    `json:"line,omitempty"` // line in the document
	Stream    string `json:"stream,omitempty"`
	Action    string `json:"action"` // see the constants
	Reason    string `json:"reason,omitempty"`
}

// The actions of an [Outcome].
const (
	Overrides = "override" // overrides a stream of the catalogue
	Adds      = "add"      // adds a stream that the catalogue does not have
	Off       = "off"      // adds a stream that a pipeline reads only if it names the stream; "*" does not select it
	Writes    = "write"    // may change data, so it can never be a stream
	Skips     = "skip"     // cannot be a stream
	Vanished  = "gone"     // was imported earlier, and is no longer in the document
)

// Define returns streams for the operations that only read data, and the outcome of each operation. The error is an
// [*Error].
func Define(d *Description, o Options) ([]Stream, []Outcome, error) {
	f := &definer{Options: o, d: d, taken: map[string]bool{}}
	if f.From == "" {
		f.From = d.Title
	}
	if f.From == "" {
		f.From = o.File
	}
	if err := f.locate(); err != nil {
		return nil, nil, err
	}
	for _, s := range o.Catalogue {
		f.taken[s.Name] = true
	}
	for _, e := range o.Entries {
		f.taken[e.Name] = true
	}
	f.modules = d.modules(moduleOf(f.From))
	selected := 0
	for _, op := range d.Operations {
		if o.Select.selects(op) {
			selected++
			f.operation(op)
		}
	}
	if selected == 0 {
		return nil, nil, &Error{File: o.File, Message: "none of its operations is selected", Hint: "the tags are " + cmp.Or(d.Tags(), "missing; select by path")}
	}
	f.parents()
	for _, s := range f.streams {
		out := Outcome{Operation: s.Operation, Line: s.line, Stream: s.Name, Action: Adds, Reason: s.Reason}
		switch {
		case s.Override:
			out.Action, out.Reason = Overrides, ""
		case !s.Enabled:
			out.Action = Off
		}
		f.outcomes = append(f.outcomes, out)
	}
	slices.SortStableFunc(f.outcomes, func(a, b Outcome) int {
		return cmp.Or(strings.Compare(path(a.Operation), path(b.Operation)), strings.Compare(a.Operation, b.Operation))
	})
	return f.streams, f.outcomes, nil
}

// Gone returns an outcome for each stream that an earlier import from the same document added, and that the
// document no longer has.
func Gone(entries []Entry, streams []Stream, outcomes []Outcome) []Outcome {
	var all []Outcome
	for _, e := range entries {
		of := func(s Stream) bool { return s.From == e.From }
		described := func(o Outcome) bool { return o.Operation == e.Operation && o.Stream != "" }
		if e.From != "" && slices.ContainsFunc(streams, of) && !slices.ContainsFunc(outcomes, described) {
			all = append(all, Outcome{Operation: e.Operation, Stream: e.Name, Action: Vanished,
				Reason: "the description no longer has this operation; remove the stream if the operation is gone for good"})
		}
	}
	return all
}

func path(call string) string { _, p, _ := strings.Cut(call, " "); return p }

// definer defines the streams of one document. See [Define].
type definer struct {
	Options
	d        *Description
	platform bool   // the document describes the platform of the catalogue
	prefix   string // prefix of each path: a path of the surface, or the base URL of another API
	taken    map[string]bool
	modules  map[string]string // by tag; nil if all streams have the same module
	streams  []Stream
	outcomes []Outcome
}

// locate decides whether the document describes the platform or another API. It is the platform if the options name a
// surface, or if the base URL is at a configured origin. If Options.BaseURL is empty, it is also the platform if at
// least half of the operations are in the catalogue. Another API must have an absolute base URL; otherwise, locate
// returns an error.
func (f *definer) locate() error {
	prefix, known := f.common()
	base := f.base()
	ours := f.Surface != "" || slices.Contains(f.Origins, originOf(base))
	if ours || f.BaseURL == "" && known > 0 && 2*known >= len(f.d.Operations) {
		f.platform, f.prefix = true, prefix
		return nil
	}
	if base == "" {
		return &Error{File: f.File, Message: "it does not name the host of the API",
			Hint: "pass --base-url https://…, or --surface app or v2 if it is the platform's own API"}
	}
	f.prefix = strings.TrimRight(base, "/")
	return nil
}

// base returns the absolute URL of the API; "" if it is not known.
func (f *definer) base() string {
	if f.BaseURL != "" {
		return f.BaseURL
	}
	for _, s := range f.d.Servers {
		if originOf(s) != "" {
			return s
		}
	}
	return ""
}

// originOf returns the scheme and host of an absolute URL; "" for any other text.
func originOf(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// common tries several prefixes in front of the operations' paths. It returns the prefix with which the most operations
// are in the catalogue, and the number of these operations.
func (f *definer) common() (prefix string, matches int) {
	var prefixes []string
	for _, s := range f.d.Servers {
		if u, err := url.Parse(s); err == nil {
			prefixes = append(prefixes, strings.TrimRight(u.Path, "/"))
		}
	}
	for _, p := range append(prefixes, "", "/api", "/v2") {
		n := 0
		for _, op := range f.d.Operations {
			if _, ok := f.known(op.Method, p+op.Path); ok {
				n++
			}
		}
		if n > matches {
			prefix, matches = p, n
		}
	}
	if matches == 0 && len(prefixes) > 0 {
		prefix = prefixes[0]
	}
	return prefix, matches
}

// known() returns the endpoint of the catalogue that has this method and path. The names of placeholders may
// differ.
func (f *definer) known(method, path string) (schemas.Stream, bool) {
	i := slices.IndexFunc(f.Catalogue, func(s schemas.Stream) bool { return s.Method == method && sameTemplate(s.Path, path) })
	if i < 0 {
		return schemas.Stream{}, false
	}
	return f.Catalogue[i], true
}

// sameTemplate reports whether two paths are equal except for the names of their placeholders.
func sameTemplate(a, b string) bool {
	as, bs := segments(a), segments(b)
	return slices.EqualFunc(as, bs, func(x, y string) bool {
		return x == y || isPlace(x) && isPlace(y)
	})
}

// operation defines the stream of an operation, or records why there is none.
func (f *definer) operation(op Operation) {
	full := f.prefix + op.Path
	var found schemas.Stream
	known := false
	if f.platform {
		found, known = f.known(op.Method, full)
	}
	action, reason := "", ""
	switch {
	case known && !found.Readable():
		action, reason = Writes, fmt.Sprintf("the catalogue lists it as a %s", found.Class) // Invariant 9
	case !known && !reads(op.Method):
		action, reason = Writes, op.Method+" may change data" // Invariant 9
	case op.Media != "" && !known:
		action, reason = Skips, "answers with "+op.Media+", which has no records"
	case !plainPath(op.Path):
		action, reason = Skips, "its path is not a template of plain parts and placeholders"
	}
	if action != "" {
		f.outcomes = append(f.outcomes, Outcome{Operation: op.Call(), Line: op.Line, Action: action, Reason: reason})
		return
	}
	l := layoutOf(op)
	s := Stream{From: f.From, Operation: op.Call(), Override: known, item: l.record, line: op.Line}
	if known {
		s.Stream = schemas.Stream{Name: found.Name, Method: found.Method, Path: found.Path, Class: found.Class, Enabled: true}
	} else {
		s.Stream = f.fresh(op, full, l)
	}
	f.state(&s, op, l)
	f.streams = append(f.streams, s)
}

// plainPath reports whether each part of a path is either plain text or one placeholder.
func plainPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "?#%\\ ") || strings.Contains(p, "/.") || strings.Contains(p, "//") || len(p) > 500 {
		return false
	}
	return !slices.ContainsFunc(segments(p), func(s string) bool {
		return isPlace(s) && placeholder.FindString(s) != s
	})
}

// state copies to s what the document says about the list and its records.
func (f *definer) state(s *Stream, op Operation, l layout) {
	s.Description = op.Text
	s.Records = l.records
	if s.Class == schemas.ClassList || s.Class == schemas.ClassBoard {
		s.Pagination = paging(op)
	}
	var detail string
	if all := segments(op.Path); len(all) > 0 && isPlace(all[len(all)-1]) {
		detail = strings.Trim(all[len(all)-1], "{}")
	} else {
		detail = f.detailOf(op)
	}
	s.Key = key(l.record, detail)
	s.Types, s.Descriptions = columns(l.record, !f.d.Examples)
}

// detailOf finds the path of a single record of a list, and returns the placeholder in this path. If the list is at
// /invoices and the document has /invoices/{number}, it returns "number". If there is no such path, it returns "".
func (f *definer) detailOf(op Operation) string {
	for _, other := range f.d.Operations {
		rest, ok := strings.CutPrefix(other.Path, strings.TrimRight(op.Path, "/")+"/")
		if ok && other.Method == "GET" && placeholder.FindString(rest) == rest {
			return strings.Trim(rest, "{}")
		}
	}
	return ""
}

// fresh() returns a new stream, which is not in the catalogue.
func (f *definer) fresh(op Operation, full string, l layout) schemas.Stream {
	s := schemas.Stream{Method: op.Method, Path: full, Class: l.class, Enabled: true}
	if f.platform {
		s.Surface = schemas.SurfaceApp
		if strings.HasPrefix(full, "/v2/") {
			s.Surface = schemas.SurfaceV2
		}
		if f.Surface != "" {
			s.Surface = f.Surface
		}
		if op.Public {
			s.Auth = schemas.AuthNone
		}
	}
	s.Name = f.name(op, s)
	for _, p := range op.Params {
		f.param(&s, p, op)
	}
	if last := strings.ToLower(lastWord(op.Path)); slices.Contains(actions, last) {
		off(&s, "its path ends in %q, which sounds like an action, not like data", last)
	}
	return s
}

// off() disables a stream with a reason, so that "*" does not select it. An earlier reason stays.
func off(s *schemas.Stream, format string, args ...any) {
	if s.Enabled {
		s.Enabled, s.Reason = false, fmt.Sprintf(format, args...)
	}
}

// param adds a path parameter or a required query parameter to s. It disables s if penstock cannot make the
// request: if a required query parameter has no value, or if a header or a cookie is required. Values from a
// parent are added later.
func (f *definer) param(s *schemas.Stream, p Param, op Operation) {
	switch {
	case p.In == "path" && strings.Contains(op.Path, "{"+p.Name+"}"):
		s.Params = append(s.Params, schemas.Param{Name: p.Name, In: "path"})
	case p.In == "query" && p.Required && !pages(p.Name):
		s.Params = append(s.Params, schemas.Param{Name: p.Name, In: "query", Value: p.Value})
		if p.Value == "" {
			off(s, "it needs a value for the query parameter %s; state it under `params`", p.Name)
		}
	case p.In == "header" && p.Required && !slices.Contains([]string{"accept", "authorization", "content-type"}, strings.ToLower(p.Name)):
		off(s, "it needs the header %s", p.Name)
	case p.In == "cookie" && p.Required:
		off(s, "it needs the cookie %s", p.Name)
	}
}

// name returns the name of a stream: its name in pipelines.yaml, or else a name that is derived from its path.
func (f *definer) name(op Operation, s schemas.Stream) string {
	for _, e := range f.Entries {
		if e.From == f.From && e.Operation == op.Call() || e.Path == s.Path && e.Method == s.Method {
			return e.Name
		}
	}
	module := f.Module
	what := resource(op.Path)
	if module == "" && f.platform {
		module = f.moduleAt(f.prefix + op.Path)
	}
	if module == "" {
		module = cmp.Or(f.modules[op.Tag], moduleOf(f.From))
	}
	name := fit(module + "." + what)
	for n := 2; f.taken[name]; n++ {
		name = fit(fmt.Sprintf("%s.%s_%d", module, what, n))
	}
	f.taken[name] = true
	return name
}

// moduleAt returns the module of an endpoint of the catalogue. The path of this endpoint begins with the same two
// segments as the given path.
func (f *definer) moduleAt(path string) string {
	all := segments(path)
	if len(all) < 2 {
		return ""
	}
	beside := "/" + all[0] + "/" + all[1]
	for _, s := range f.Catalogue {
		if s.Path == beside || strings.HasPrefix(s.Path, beside+"/") {
			return s.Module
		}
	}
	return moduleOf(strings.ReplaceAll(all[1], "-", "_"))
}
