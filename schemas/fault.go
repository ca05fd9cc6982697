package schemas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Fault is a problem with a stream of a catalogue.
type Fault struct {
	Stream  string // name of the stream
	Field   string // the wrong part, as the catalogue's files name it: path, params, records, …
	Problem string
}

// Error returns `stream crm.leads: records: …`.
func (f *Fault) Error() string {
	return fmt.Sprintf("stream %s: %s: %s", f.Stream, f.Field, f.Problem)
}

type checks struct {
	stream string
	faults []*Fault
}

func (k *checks) add(field, format string, args ...any) {
	k.faults = append(k.faults, &Fault{k.stream, field, fmt.Sprintf(format, args...)})
}

func (c *Catalogue) validate() []*Fault {
	var faults []*Fault
	names, tables, routes := map[string]bool{}, map[string]string{}, map[string]string{}
	for _, s := range c.streams {
		k := &checks{stream: s.Name}
		if names[s.Name] {
			k.add("name", "two streams have this name")
		}
		names[s.Name] = true
		route := string(s.Surface) + " " + s.Method + " " + s.Path
		if other, ok := routes[route]; ok {
			k.add("path", "%s %s is already the request of %s", s.Method, s.Path, other)
		}
		routes[route] = s.Name
		s.check(k)
		if s.Readable() {
			if other, ok := tables[s.Table.Name]; ok {
				k.add("table", "%s is already the table of %s", s.Table.Name, other)
			}
			tables[s.Table.Name] = s.Name
			c.checkParent(s, k)
			c.checkTwin(s, k)
		}
		faults = append(faults, k.faults...)
	}
	return faults
}

func (c *Catalogue) checkParent(s Stream, k *checks) {
	seen := []string{s.Name}
	for name := s.Parent; name != ""; {
		p, ok := c.Find(name)
		switch {
		case !ok:
			k.add("parent", "there is no stream %q", name)
			return
		case !p.Readable():
			k.add("parent", "%s is a %s and cannot be read", name, p.Class)
			return
		case slices.Contains(seen, name):
			k.add("parent", "the parents form a cycle: %s", strings.Join(append(seen, name), ", "))
			return
		}
		seen = append(seen, name)
		name = p.Parent
	}
}

// checkTwin checks the twin of s: another stream whose list has the same records; see [Stream].Twin. A run reads the
// twin first and then compares s with it, so twins must not form a cycle. Neither s nor its twin may have a parent, and
// their keys must have the same number of columns.
func (c *Catalogue) checkTwin(s Stream, k *checks) {
	seen := []string{s.Name}
	for at := s; at.Twin != ""; {
		t, ok := c.Find(at.Twin)
		switch {
		case !ok || !t.Readable():
			k.add("twin", "%q is not a stream that can be read", at.Twin)
			return
		case s.Parent != "" || t.Parent != "":
			k.add("twin", "%s or %s has a parent", s.Name, at.Twin)
			return
		case len(s.Key) == 0 || len(t.Key) != len(s.Key):
			k.add("twin", "%s and %s need keys with the same number of columns", s.Name, at.Twin)
			return
		case slices.Contains(seen, at.Twin):
			k.add("twin", "the twins form a cycle: %s", strings.Join(append(seen, at.Twin), ", "))
			return
		}
		seen = append(seen, at.Twin)
		at = t
	}
}

var (
	streamName  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z0-9]+(_[a-z0-9]+)*$`)
	contextName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	pathParam   = regexp.MustCompile(`\{([^{}/]*)\}`)
	pointerForm = regexp.MustCompile(`^(/([^~/]|~[01])*)*$`)
)

var (
	surfaces   = []Surface{SurfaceV2, SurfaceApp}
	classes    = []Class{ClassList, ClassBoard, ClassDetail, ClassSingleton, ClassLookup, ClassReport, ClassFile, ClassSession, ClassWrite}
	auths      = []Auth{AuthBearer, AuthNone, AuthWhiteLabel}
	methods    = []string{"GET", "POST", "PUT", "DELETE"}
	paramPlace = []string{"path", "query", "body"}
)

// maxTable leaves room for the longest suffix of a child table's name: `__`, a letter, `_` and a hash.
const maxTable = MaxName - 3 - utf8.UTFMax - shortHash

func (s Stream) check(k *checks) {
	if !streamName.MatchString(s.Name) {
		k.add("name", "want <module>.<resource> in snake case")
	} else if module, _, _ := strings.Cut(s.Name, "."); module != s.Module {
		k.add("module", "%q is not the part of the name before the dot", s.Module)
	}
	oneOf(k, "surface", s.Surface, surfaces)
	oneOf(k, "class", s.Class, classes)
	oneOf(k, "auth", s.Auth, auths)
	oneOf(k, "method", s.Method, methods)
	if !strings.HasPrefix(s.Path, "/") && !strings.Contains(s.Path, "://") {
		k.add("path", "%q begins neither with a slash nor with a scheme", s.Path)
	}
	if !s.Readable() {
		s.checkWrite(k)
		return
	}
	s.checkRead(k)
	s.checkParams(k)
}

// checkWrite checks that a write or session call cannot become a stream. // Invariant 9
func (s Stream) checkWrite(k *checks) {
	if s.Table.Name != "" || len(s.Key) > 0 || s.Parent != "" || len(s.Records) > 0 {
		k.add("class", "a %s has no table, key, parent or records", s.Class)
	}
	if s.Enabled {
		k.add("enabled", "a %s cannot be read", s.Class)
	}
}

func (s Stream) checkRead(k *checks) {
	if s.Method != "GET" && s.Method != "POST" {
		k.add("method", "a stream cannot use %s", s.Method)
	}
	if len(s.Table.Name) > maxTable || s.Table.Name == "" {
		k.add("name", "the table name %q must have 1 to %d bytes", s.Table.Name, maxTable)
	}
	if !s.Enabled && s.Reason == "" {
		k.add("reason", "say why the stream is not enabled")
	}
	for _, p := range s.Records {
		if !pointerForm.MatchString(p) {
			k.add("records", "%q is not a JSON pointer", p)
		}
	}
	if s.Context != "" && !contextName.MatchString(s.Context) {
		k.add("context", "%q is not in snake case", s.Context)
	}
	for _, v := range s.Volatile {
		if slices.Contains(s.Key, v) {
			k.add("volatile", "%s is part of the key", v)
		}
	}
	if s.Months != (Months{}) {
		s.checkMonths(k)
	}
	if s.Window && len(s.Key) == 0 {
		k.add("window", "needs a key, because the rows outside the window stay in the table, and later passes find them by the key")
	}
	oneOf(k, "pagination.type", s.Pagination.Type, append([]string{""}, Paging().Pagers()...))
	if s.Pagination.Limit < 0 {
		k.add("pagination.limit", "%d is negative", s.Pagination.Limit)
	}
	for column, t := range s.Types {
		if _, err := ParseType(t); err != nil {
			k.add("types."+column, "%v", err)
		}
	}
}

// checkMonths checks the parameters of Months. The stream needs a key, because a pass reads the records of only some
// months, but the table has the rows of all months. The pass finds the rows of its records by the key.
func (s Stream) checkMonths(k *checks) {
	switch {
	case s.Months.Month == "" || s.Months.Year == "" || s.Months.Month == s.Months.Year:
		k.add("months", "want the parameters month and year")
	case s.Parent != "":
		k.add("months", "the stream has the parent %s", s.Parent)
	case len(s.Key) == 0:
		k.add("months", "needs a key, because the rows of other months stay in the table, and later passes find them by the key")
	case s.Incremental != (Incremental{}):
		k.add("months", "a list with months cannot have incremental")
	}
}

func (s Stream) checkParams(k *checks) {
	var inPath []string
	for _, m := range pathParam.FindAllStringSubmatch(s.Path, -1) {
		inPath = append(inPath, m[1])
	}
	var given []string
	for _, p := range s.Params {
		if slices.Contains(given, p.Name) {
			k.add("params", "%s is given twice", p.Name)
		}
		given = append(given, p.Name)
		s.checkParam(k, p, inPath)
	}
	for _, name := range inPath {
		if !slices.Contains(given, name) {
			k.add("params", "the path has {%s}, but no parameter sets it", name)
		}
	}
}

func (s Stream) checkParam(k *checks, p Param, inPath []string) {
	oneOf(k, "params", p.In, paramPlace)
	switch {
	case p.Name == "":
		k.add("params", "a parameter has no name")
	case p.In == "path" && !slices.Contains(inPath, p.Name):
		k.add("params", "the path has no {%s}", p.Name)
	case p.In == "body" && s.Method != "POST":
		k.add("params", "%s: a %s has no body", p.Name, s.Method)
	case p.From != "" && p.Value != "":
		k.add("params", "%s: from and value exclude each other", p.Name)
	case p.From != "" && s.Parent == "":
		k.add("params", "%s: from needs a parent", p.Name)
	case !pointerForm.MatchString(p.From):
		k.add("params", "%s: from %q is not a JSON pointer", p.Name, p.From)
	case p.From == "" && p.Value == "" && s.Enabled:
		k.add("params", "%s: set from or value", p.Name)
	}
}

func oneOf[T ~string](k *checks, field string, v T, allowed []T) {
	if !slices.Contains(allowed, v) {
		k.add(field, "%q: want one of %s", v, quoted(allowed))
	}
}

func quoted[T ~string](values []T) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", string(v))
	}
	return b.String()
}
