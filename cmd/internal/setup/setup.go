// Package setup makes a configuration from answers: it asks the questions of `penstock init` and checks the answers.
package setup

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
	"github.com/penstock-data/penstock/cmd/internal/open"
)

// The environment variables for secrets in a configuration that init writes.
const (
	KeyVariable      = "PENSTOCK_API_KEY"
	TokenVariable    = "PENSTOCK_APP_TOKEN"
	DatabaseVariable = "DATABASE_URL"

	v2Variable  = "PENSTOCK_V2_URL"
	appVariable = "PENSTOCK_APP_URL"
)

//go:embed templates/pipelines.yaml.tmpl
var templates embed.FS

// Setup has the answers from which init makes a configuration.
type Setup struct {
	V2URL, AppURL string
	Plan          string
	To            []string // URLs, as they are written in the file
	Streams       []string
	Cron, Zone    string
	State         string
	DefaultTo     string // destination if To is empty

	Env   func(name string) (string, bool) // looks up environment variables
	Typed map[string]string                // secrets that the user has typed, by environment variable
}

// Fill sets the defaults of missing answers.
func (s *Setup) Fill() {
	s.Plan, s.Zone = cmp.Or(s.Plan, "pro"), cmp.Or(s.Zone, "UTC")
	if len(s.To) == 0 {
		s.To = []string{s.DefaultTo}
	}
	if len(s.Streams) == 0 {
		s.Streams = []string{"*"}
	}
}

// DefaultState returns the default state folder of a configuration file. It is in the same folder as the file.
func DefaultState(path string) string {
	return filepath.Join(filepath.Dir(path), config.DefaultState)
}

// Refuse returns an error if the command line contains a password. // Invariant 5
func (s *Setup) Refuse() error {
	for _, to := range s.To {
		if hasPassword(to) {
			return failure.Usage("put it into "+DatabaseVariable+" and pass --to '${"+DatabaseVariable+"}'",
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
func (s Setup) destinations() []newDestination {
	words := map[string]string{"duckdb": "warehouse", "sqlite": "desk", "parquet": "lake", "postgres": "bi", "postgresql": "bi", "mysql": "bi", "mariadb": "bi"}
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

// Variables returns the environment variables that the configuration refers to.
func (s Setup) Variables() []string {
	var all []string
	if s.V2URL != "" {
		all = append(all, KeyVariable)
	}
	if s.AppURL != "" {
		all = append(all, TokenVariable)
	}
	for _, text := range append(slices.Clone(s.To), s.V2URL, s.AppURL) {
		os.Expand(text, func(name string) string { all = append(all, name); return "" })
	}
	return all
}

// Lacking returns the environment variables of the configuration that have no value.
func (s Setup) Lacking() []string {
	return slices.DeleteFunc(s.Variables(), func(name string) bool { _, ok := s.lookup(name); return ok })
}

// lookup returns the value of a variable: what the user has typed, or the value in the environment.
func (s Setup) lookup(name string) (string, bool) {
	if v := s.Typed[name]; v != "" {
		return v, true
	}
	v, _ := s.Env(name)
	return v, v != ""
}

// FromEnvironment takes the addresses and the destination from the environment, unless flags have set them.
func (s *Setup) FromEnvironment() error {
	if v, ok := s.lookup(v2Variable); ok && s.V2URL == "" {
		s.V2URL = v
	}
	if v, ok := s.lookup(appVariable); ok && s.AppURL == "" {
		s.AppURL = v
	}
	if _, ok := s.lookup(DatabaseVariable); ok && len(s.To) == 0 {
		s.To = []string{"${" + DatabaseVariable + "}"}
	}
	if s.V2URL == "" && s.AppURL == "" {
		return failure.Usage("set "+v2Variable+", "+appVariable+" or both", "no workspace is in the environment")
	}
	return nil
}

// Render returns the text of the configuration.
func (s Setup) Render() ([]byte, error) {
	t, err := template.New("pipelines.yaml.tmpl").Funcs(template.FuncMap{"quote": config.Quote}).ParseFS(templates, "templates/pipelines.yaml.tmpl")
	if err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	var text bytes.Buffer
	err = t.Execute(&text, struct {
		Setup
		Schema, KeyVariable, TokenVariable string
		Destinations                       []newDestination
	}{s, config.SchemaURL, KeyVariable, TokenVariable, s.destinations()})
	if err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	return text.Bytes(), nil
}

// Parse renders the configuration and parses it as every other command does. A variable without a value is not a fault:
// Parse uses a placeholder.
func Parse(o *open.Opener, s Setup) (*config.Config, error) {
	s.Fill()
	text, err := s.Render()
	if err != nil {
		return nil, err
	}
	return o.Parse(text, func(name string) (string, bool) {
		v, ok := s.lookup(name)
		switch {
		case ok:
			return v, true
		case name == config.StateKeyName: // optional
			return "", false
		case name == DatabaseVariable:
			return "postgres://localhost/penstock", true
		}
		return "not set yet", true
	}, false, o.Listed)
}
