package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

//go:embed *.yaml
var files embed.FS

// Load returns the embedded catalogue, which contains every endpoint of both surfaces once. Its errors name the file,
// line and column.
func Load() (*Catalogue, error) { return embedded() }

// embedded parses the embedded catalogue when it is called for the first time in this process. Parsing takes 30 ms.
var embedded = sync.OnceValues(func() (*Catalogue, error) { return load(files) })

type group struct {
	Group    string
	Module   string
	Surface  Surface
	Streams  []entry
	Sessions yaml.MapSlice // name: METHOD path
	Writes   yaml.MapSlice // name: METHOD path
}

type entry struct {
	Name       string
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
	doc, err := parser.ParseBytes(data, 0)
	if err != nil {
		l.faults = append(l.faults, positioned(name, err))
		return
	}
	if len(doc.Docs) != 1 || doc.Docs[0].Body == nil {
		l.faults = append(l.faults, fmt.Errorf("%s: want one document", name))
		return
	}
	var g group
	if err := yaml.NodeToValue(doc.Docs[0].Body, &g, yaml.Strict()); err != nil {
		l.faults = append(l.faults, positioned(name, err))
		return
	}
	for i, e := range g.Streams {
		s, err := g.stream(e)
		l.add(s, err, place{name, doc, fmt.Sprintf("$.streams[%d].name", i)})
	}
	for _, item := range g.Sessions {
		s, err := g.call(item, ClassSession)
		l.add(s, err, place{name, doc, fmt.Sprintf("$.sessions.'%s'", item.Key)})
	}
	for _, item := range g.Writes {
		s, err := g.call(item, ClassWrite)
		l.add(s, err, place{name, doc, fmt.Sprintf("$.writes.'%s'", item.Key)})
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
	method, path, err := request(e.Name, e.Request)
	if err != nil {
		return Stream{}, err
	}
	types := make(map[string]string)
	for t, columns := range e.Types {
		for _, c := range columns {
			if _, ok := types[c]; ok {
				return Stream{}, fmt.Errorf("stream %s: types: %s is declared twice", e.Name, c)
			}
			types[c] = t
		}
	}
	return Stream{
		Table: Table{Name: strings.ReplaceAll(e.Name, ".", "_"), Key: e.Key},
		Name:  e.Name, Surface: g.Surface, Module: g.Module, Group: g.Group,
		Method: method, Path: path, Class: e.Class, Media: e.Media, Auth: e.Auth, Scope: e.Scope,
		Parent: e.Parent, Params: e.Params,
		Records: e.Records, Context: e.Context, Pagination: e.Pagination,
		Volatile: e.Volatile, Window: e.Window, Twin: e.Twin, Types: types,
		Months:  Months{Month: e.Months.Month, Year: e.Months.Year},
		Enabled: e.Disabled == "", Reason: e.Disabled,
	}, nil
}

func (g *group) call(item yaml.MapItem, class Class) (Stream, error) {
	name := fmt.Sprint(item.Key)
	method, path, err := request(name, fmt.Sprint(item.Value))
	if err != nil {
		return Stream{}, err
	}
	s := Stream{
		Name: name, Surface: g.Surface, Module: g.Module, Group: g.Group,
		Method: method, Path: path, Class: class,
		Reason: "changes the platform's data",
	}
	if class == ClassSession {
		s.Reason = "reserved for the credentials"
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

func positioned(name string, err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p := e.GetToken().Position
	return fmt.Errorf("%s:%d:%d: %s", name, p.Line, p.Column, e.GetMessage())
}

// place is the place of an entry in a file of the catalogue.
type place struct {
	file string
	doc  *ast.File
	path string
}

// String returns file, line and column. It searches for the entry, so it is called only for errors.
func (at place) String() string {
	if at.doc == nil {
		return at.file
	}
	p, err := yaml.PathString(at.path)
	if err != nil {
		return at.file
	}
	n, err := p.FilterFile(at.doc)
	if err != nil || n == nil {
		return at.file
	}
	pos := n.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", at.file, pos.Line, pos.Column)
}
