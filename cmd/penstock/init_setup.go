package main

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// The environment variables for secrets in a configuration that init writes.
const (
	keyVariable      = "PENSTOCK_API_KEY"
	tokenVariable    = "PENSTOCK_APP_TOKEN"
	databaseVariable = "DATABASE_URL"
)

//go:embed templates/pipelines.yaml.tmpl
var templates embed.FS

// setup has the answers from which init makes a configuration.
type setup struct {
	V2URL, AppURL string
	Plan          string
	To            []string // URLs, as they are written in the file
	Streams       []string
	Cron, Zone    string
	State         string

	typed map[string]string // secrets that the user has typed, by environment variable
}

// fill sets the defaults of missing answers.
func (s *setup) fill() {
	s.Plan, s.Zone = cmp.Or(s.Plan, "pro"), cmp.Or(s.Zone, "UTC")
	if len(s.To) == 0 {
		s.To = []string{defaultDestination()}
	}
	if len(s.Streams) == 0 {
		s.Streams = []string{"*"}
	}
}

// defaultDestination returns the URL of a DuckDB file, or of an SQLite file if this build lacks DuckDB.
func defaultDestination() string {
	if duckdbKind().Missing != "" {
		return "sqlite:warehouse.db"
	}
	return "duckdb:warehouse.duckdb"
}

// defaultState returns the state folder for a configuration, beside the file.
func defaultState(path string) string {
	return filepath.Join(filepath.Dir(path), config.DefaultState)
}

// refuse returns an error if the command line contains a password. // Invariant 5
func (s *setup) refuse() error {
	for _, to := range s.To {
		if hasPassword(to) {
			return failure.Usage("put it into "+databaseVariable+" and pass --to '${"+databaseVariable+"}'",
				"--to contains a password, and everyone on this machine can see command lines")
		}
	}
	return nil
}

// hasPassword reports whether the URL of a destination contains a password.
func hasPassword(to string) bool {
	u, err := url.Parse(to)
	if err != nil {
		return strings.Contains(to, "@")
	}
	_, set := u.User.Password()
	return set || u.Query().Has("password")
}

// newDestination is a destination as it is written in the configuration.
type newDestination struct{ Name, URL string }

// destinations returns the destinations, each named after its kind.
func (s setup) destinations() []newDestination {
	words := map[string]string{"duckdb": "warehouse", "sqlite": "desk", "parquet": "lake", "postgres": "bi", "postgresql": "bi"}
	count := map[string]int{}
	var all []newDestination
	for _, to := range s.To {
		scheme, _, _ := strings.Cut(os.Expand(to, func(name string) string { v, _ := s.lookup(name); return v }), ":")
		name := cmp.Or(words[scheme], "destination")
		if count[name]++; count[name] > 1 {
			name = fmt.Sprintf("%s%d", name, count[name])
		}
		all = append(all, newDestination{name, to})
	}
	return all
}

// variables returns the environment variables that the configuration refers to.
func (s setup) variables() []string {
	var all []string
	if s.V2URL != "" {
		all = append(all, keyVariable)
	}
	if s.AppURL != "" {
		all = append(all, tokenVariable)
	}
	for _, text := range append(slices.Clone(s.To), s.V2URL, s.AppURL) {
		os.Expand(text, func(name string) string { all = append(all, name); return "" })
	}
	return all
}

// lacking returns the environment variables of the configuration that have no value.
func (s setup) lacking() []string {
	return slices.DeleteFunc(s.variables(), func(name string) bool { _, ok := s.lookup(name); return ok })
}

// lookup returns the value of a variable: what the user has typed, or the value in the environment.
func (s setup) lookup(name string) (string, bool) {
	if v := s.typed[name]; v != "" {
		return v, true
	}
	v := os.Getenv(name)
	return v, v != ""
}

// render returns the text of the configuration.
func (s setup) render() ([]byte, error) {
	t, err := template.New("pipelines.yaml.tmpl").Funcs(template.FuncMap{"quote": config.Quote}).ParseFS(templates, "templates/pipelines.yaml.tmpl")
	if err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	var text bytes.Buffer
	err = t.Execute(&text, struct {
		setup
		Schema, KeyVariable, TokenVariable string
		Destinations                       []newDestination
	}{s, config.SchemaURL, keyVariable, tokenVariable, s.destinations()})
	if err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	return text.Bytes(), nil
}

// parseSetup renders the configuration and parses it as every other verb would. A variable without a value is not a
// fault: parseSetup uses a placeholder.
func parseSetup(a *app, s setup) (*config.Config, error) {
	s.fill()
	text, err := s.render()
	if err != nil {
		return nil, err
	}
	return a.open.Parse(text, func(name string) (string, bool) {
		v, ok := s.lookup(name)
		switch {
		case ok:
			return v, true
		case name == config.StateKeyName: // optional
			return "", false
		case name == databaseVariable:
			return "postgres://localhost/penstock", true
		}
		return "not set yet", true
	}, false, a.open.Listed)
}

// shellWord quotes text as one word of a shell.
func shellWord(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-") == "" && text != "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
