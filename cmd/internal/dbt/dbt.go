// Package dbt writes a dbt project for the tables of a destination: sources and staging models for each module of the
// platform, tests, and a macro for incremental models.
package dbt

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// own is the name of the source with penstock's own tables and views.
const own = "penstock"

// Mark is in the first line of each file that penstock may overwrite.
const Mark = "Made by `penstock docs --format dbt`"

const remark = Mark + ". To change this file, remove this line: then penstock keeps the file."

// File is a file of the project.
type File struct {
	Path string // relative to the project's folder, with slashes
	Text []byte
	Once bool // the file is the user's: it is written only if it does not exist
}

//go:embed all:project
var static embed.FS

// Project returns the files of a dbt project for the selected tables of a destination, by path.
func Project(d render.Dictionary) ([]File, error) {
	relations, err := schemas.LoadRelations()
	if err != nil {
		return nil, err
	}
	p := newProject(d, relations)
	files, err := p.settings()
	if err != nil {
		return nil, err
	}
	for _, module := range slices.Sorted(maps.Keys(p.modules)) {
		made, err := p.module(module)
		if err != nil {
			return nil, err
		}
		files = append(files, made...)
	}
	made, err := p.ownTables()
	if err != nil {
		return nil, err
	}
	files = append(files, made, ownColumns())
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

// project is what the files of a project are made from.
type project struct {
	render.Dictionary
	relations schemas.Relations
	tables    map[string]render.TableDoc   // selected tables, by name
	modules   map[string][]render.TableDoc // the same tables, by module, in the order of their names
	views     map[string]bool
	shared    bool // several sources share the tables
}

func newProject(d render.Dictionary, relations schemas.Relations) *project {
	p := &project{Dictionary: d, relations: relations, tables: map[string]render.TableDoc{}, modules: map[string][]render.TableDoc{}, views: map[string]bool{}}
	for _, g := range d.Groups {
		for _, t := range g.Tables {
			if t.Selected {
				if t.Of.Module == own {
					t.Of.Module = own + "_streams" // the source `penstock` has penstock's own tables
				}
				p.tables[t.Name] = t
				p.shared = p.shared || t.Shared
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.tables)) {
		t := p.tables[name]
		p.modules[t.Of.Module] = append(p.modules[t.Of.Module], t)
	}
	for _, v := range d.Views {
		p.views[v.Name] = true
	}
	return p
}

// postgres reports whether the tables are in Postgres. All other destinations are read by DuckDB.
func (p *project) postgres() bool { return strings.HasPrefix(p.Kind, "postgres") }

// defaultSchema returns the schema of the tables, unless the variable penstock_schema says otherwise.
func (p *project) defaultSchema() string {
	if p.postgres() {
		return cmp.Or(p.Schema, "public")
	}
	return cmp.Or(p.Schema, "main")
}

// settings returns the files that do not depend on the tables.
func (p *project) settings() ([]File, error) {
	var files []File
	err := fs.WalkDir(static, "project", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := static.ReadFile(name)
		if err != nil {
			return err
		}
		to := strings.TrimPrefix(name, "project/")
		if base := path.Base(to); strings.HasPrefix(base, "profiles.") {
			if (base == "profiles.postgres.yml") != p.postgres() {
				return nil
			}
			to = "profiles.yml"
		}
		once := path.Dir(to) == "."
		if !once {
			text = append(header(to), text...)
		}
		text = bytes.ReplaceAll(text, []byte("PENSTOCK_SCHEMA"), []byte(p.defaultSchema()))
		files = append(files, File{Path: to, Text: text, Once: once})
		return nil
	})
	return files, err
}

// header returns the first line of a file, as a comment in the language of the file.
func header(name string) []byte {
	switch path.Ext(name) {
	case ".sql":
		return []byte("{# " + remark + " #}\n")
	case ".md":
		return []byte("<!-- " + remark + " -->\n")
	}
	return []byte("# " + remark + "\n")
}

func yamlFile(name string, content any) (File, error) {
	var b bytes.Buffer
	b.Write(header(name))
	if err := yaml.NewEncoder(&b, yaml.IndentSequence(true), yaml.UseLiteralStyleIfMultiline(true)).Encode(content); err != nil {
		return File{}, fmt.Errorf("write %s: %w", name, err)
	}
	return File{Path: name, Text: b.Bytes()}, nil
}

// module returns the sources, the models and the descriptions of a module.
func (p *project) module(module string) ([]File, error) {
	folder := path.Join("models", "staging", module)
	src := source{Name: module, Description: fmt.Sprintf("The module %s, loaded by penstock into %s.", module, p.Destination), Schema: p.schemaVar(), Config: &tableConfig{Freshness: &nightly}}
	var m models
	var files []File
	for _, t := range p.modules[module] {
		src.Tables = append(src.Tables, p.sourceTables(t)...)
		if t.Parent != "" && t.Mode == string(schemas.Append) {
			continue // its rows do not show which version of the parent is the current one
		}
		name := modelName(t)
		m.Models = append(m.Models, p.model(name, t))
		at := path.Join(folder, name+".sql")
		files = append(files, File{Path: at, Text: append(header(at), p.stagingSQL(t)...)})
	}
	sources, err := yamlFile(path.Join(folder, "_"+module+"__sources.yml"), sourcesFile{[]source{src}})
	if err != nil {
		return nil, err
	}
	described, err := yamlFile(path.Join(folder, "_"+module+"__models.yml"), m)
	return append(files, sources, described), err
}

func (p *project) schemaVar() string {
	if p.files() {
		return ""
	}
	return "{{ var('penstock_schema', '" + p.defaultSchema() + "') }}"
}

// files reports whether the tables are files of a lake.
func (p *project) files() bool {
	for _, t := range p.tables {
		return t.Files != ""
	}
	return false
}

// ownTables returns the source with penstock's own tables, and with its views that answer questions.
func (p *project) ownTables() (File, error) {
	src := source{Name: own, Description: "Tables in which penstock records its runs, and its views.", Schema: p.schemaVar()}
	certificates := sourceTable{Name: load.Certificates.Name, Description: "One row for each reading of a stream: the verdict about its completeness, and counts."}
	if p.files() {
		certificates.Config = &tableConfig{Meta: &meta{ExternalLocation: readFiles(p.CertificateFiles)}}
	}
	src.Tables = append(src.Tables, certificates)
	if !p.files() {
		src.Tables = append(src.Tables,
			sourceTable{Name: load.Runs.Name, Description: "One row for each run of a pipeline."},
			sourceTable{Name: load.Rejects.Name, Description: "Values and records that no column can hold, with the reason."})
	}
	for _, v := range p.Views {
		if !strings.HasSuffix(v.Name, "_current") {
			src.Tables = append(src.Tables, sourceTable{Name: v.Name, Description: v.Title + "."})
		}
	}
	return yamlFile("models/staging/penstock/_penstock__sources.yml", sourcesFile{[]source{src}})
}

// ownColumns returns the descriptions of the columns that penstock adds to the tables.
func ownColumns() File {
	name := "models/staging/penstock/_penstock.md"
	b := bytes.NewBuffer(header(name))
	for _, c := range []string{
		schemas.ColSource, schemas.ColSyncedAt, schemas.ColRun, schemas.ColHash, schemas.ColDeletedAt, schemas.ColVia, schemas.ColParent,
		schemas.ColIndex, schemas.ColRoot, schemas.ColRest, schemas.ColValidFrom, schemas.ColValidTo,
	} {
		fmt.Fprintf(b, "\n{%% docs %s %%}\n%s.\n{%% enddocs %%}\n", strings.TrimPrefix(c, "_"), upperFirst(schemas.Meaning(c)))
	}
	return File{Path: name, Text: b.Bytes()}
}
