package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Load returns the embedded catalogue, which contains every endpoint of both surfaces once. Its errors name the file
// and line.
func Load() (*Catalogue, error) { return embedded() }

// embedded parses the embedded catalogue when it is called for the first time in this process. Parsing takes 6 ms.
var embedded = sync.OnceValues(func() (*Catalogue, error) { return load(files) })

type group struct {
	Group    string
	Module   string
	Surface  Surface
	Streams  []entry
	Sessions yaml.Node // name: METHOD path
	Writes   yaml.Node // name: METHOD path
}

type entry struct {
	Name       placedName
	Request    string // METHOD path
	Class      Class
	Media      string
	Auth       Auth
	Scope      string
	Key        []string
	Parent     string
	Params     []Param
	Records    []string
	Context    string
	Pagination Pagination
	Volatile   []string
	Window     bool
	Months     struct{ Month, Year string }
	Twin       string
	Types      map[string][]string // names of columns, by type
	Disabled   string              // why "*" does not select the stream; "" if "*" selects it
}

func load(fsys fs.FS) (*Catalogue, error) {
	names, err := fs.Glob(fsys, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("list catalogue: %w", err)
	}
	l := loader{places: make(map[string]place)}
	for _, name := range names {
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read catalogue: %w", err)
		}
		l.file(name, data)
	}
	if err := errors.Join(l.faults...); err != nil {
		return nil, err
	}
	c := index(l.streams)
	if faults := c.validate(); len(faults) > 0 {
		return nil, join(faults, func(f *Fault) error { return fmt.Errorf("%s: %w", l.places[f.Stream], f) })
	}
	return c, nil
}

type loader struct {
	streams []Stream
	places  map[string]place
	faults  []error
}

func (l *loader) file(name string, data []byte) {
	var g group
	if err := decode(data, &g); err != nil {
		l.faults = append(l.faults, inFile(name, err)...)
		return
	}
	for _, e := range g.Streams {
		s, err := g.stream(e)
		l.add(s, err, place{name, e.Name.line, e.Name.column})
	}
	l.calls(name, &g, g.Sessions, ClassSession)
	l.calls(name, &g, g.Writes, ClassWrite)
}

// calls adds requests that no stream sends: writes, or requests that log in and out. The YAML node maps the name of
// each request to its method and path.
func (l *loader) calls(file string, g *group, calls yaml.Node, class Class) {
	if calls.Kind != yaml.MappingNode && !calls.IsZero() && calls.Tag != "!!null" {
		l.faults = append(l.faults, fmt.Errorf("%s: want a mapping from names to METHOD /path", place{file, calls.Line, calls.Column}))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(calls.Content); i += 2 {
		key := calls.Content[i]
		s, err := g.call(key.Value, calls.Content[i+1].Value, class)
		if err == nil && seen[key.Value] {
			err = fmt.Errorf("%s is defined twice", key.Value)
		}
		seen[key.Value] = true
		l.add(s, err, place{file, key.Line, key.Column})
	}
}

func (l *loader) add(s Stream, err error, at place) {
	if err != nil {
		l.faults = append(l.faults, fmt.Errorf("%s: %w", at, err))
		return
	}
	l.streams = append(l.streams, s)
	l.places[s.Name] = at
}

func (g *group) stream(e entry) (Stream, error) {
	name := e.Name.text
	method, path, err := request(name, e.Request)
	if err != nil {
		return Stream{}, err
	}
	types := make(map[string]string)
	for t, columns := range e.Types {
		for _, c := range columns {
			if _, ok := types[c]; ok {
				return Stream{}, fmt.Errorf("stream %s: types: %s is declared twice", name, c)
			}
			types[c] = t
		}
	}
	return Stream{
		Table: Table{Name: strings.ReplaceAll(name, ".", "_"), Key: e.Key},
		Name:  name, Surface: g.Surface, Module: g.Module, Group: g.Group,
		Method: method, Path: path, Class: e.Class, Media: e.Media, Auth: e.Auth, Scope: e.Scope,
		Parent: e.Parent, Params: e.Params,
		Records: e.Records, Context: e.Context, Pagination: e.Pagination,
		Volatile: e.Volatile, Window: e.Window, Twin: e.Twin, Types: types,
		Months:  Months{Month: e.Months.Month, Year: e.Months.Year},
		Enabled: e.Disabled == "", Reason: e.Disabled,
	}, nil
}

func (g *group) call(name, text string, class Class) (Stream, error) {
	method, path, err := request(name, text)
	if err != nil {
		return Stream{}, err
	}
	s := Stream{
		Name: name, Surface: g.Surface, Module: g.Module, Group: g.Group,
		Method: method, Path: path, Class: class,
		Reason: "changes the platform's data",
	}
	if class == ClassSession {
		s.Reason = "a login or logout, which no stream may request"
	}
	for _, m := range pathParam.FindAllStringSubmatch(path, -1) {
		s.Params = append(s.Params, Param{Name: m[1], In: "path"})
	}
	return s, nil
}

func request(stream, s string) (method, path string, err error) {
	method, path, ok := strings.Cut(s, " ")
	if !ok {
		return "", "", fmt.Errorf("stream %s: request %q: want METHOD /path", stream, s)
	}
	return method, path, nil
}

// place says where in a file of the catalogue an entry is.
type place struct {
	file         string
	line, column int
}

// String returns file, line and column.
func (at place) String() string {
	if at.line == 0 {
		return at.file
	}
	return fmt.Sprintf("%s:%d:%d", at.file, at.line, at.column)
}

// placedName is the name of an entry, and its place in the file.
type placedName struct {
	text         string
	line, column int
}

// UnmarshalYAML implements [yaml.Unmarshaler].
func (n *placedName) UnmarshalYAML(node *yaml.Node) error {
	n.line, n.column = node.Line, node.Column
	return node.Decode(&n.text)
}
