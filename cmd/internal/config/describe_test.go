package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

var update = flag.Bool("update", false, "rewrite the JSON Schema")

const shippedSchema = "../../penstock/pipelines.schema.json"

func TestShippedSchemaIsFresh(t *testing.T) {
	want, err := Describe()
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(shippedSchema, want, 0o644))
	}
	got, err := os.ReadFile(shippedSchema)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "the schema has changed; run go test ./cmd/internal/config -run Shipped -update")
}

func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	d, err := newDescriber()
	require.NoError(t, err)
	_, err = d.describe(nil)
	require.NoError(t, err)
	require.Empty(t, d.mute, "each key must have an entry in keys.yaml")
	require.ElementsMatch(t, slices.Collect(maps.Keys(d.words)), slices.Collect(maps.Keys(d.used)), "each entry of keys.yaml must belong to a key")
}

func validator(t *testing.T) func(text []byte) error {
	t.Helper()
	text, err := Describe()
	require.NoError(t, err)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource(SchemaURL, document))
	s, err := c.Compile(SchemaURL)
	require.NoError(t, err)
	return func(text []byte) error {
		var v any
		if err := yaml.Unmarshal(text, &v); err != nil {
			return err
		}
		plain, err := json.Marshal(v)
		if err != nil {
			return err
		}
		v, err = jsonschema.UnmarshalJSON(bytes.NewReader(plain))
		return errors.Join(err, s.Validate(v))
	}
}

func parserFor(t *testing.T) func(text []byte) error {
	t.Helper()
	catalogue, err := schemas.Load()
	require.NoError(t, err)
	all := catalogue.Streams()
	filled := func(name string) (string, bool) {
		if strings.HasSuffix(name, "SANDBOX") || strings.HasSuffix(name, "URL") {
			return "http://127.0.0.1:1", true
		}
		return "whsec_0123456789abcdef0123", true
	}
	return func(text []byte) error {
		_, err := Parse(text, Input{
			File: "pipelines.yaml", Env: filled, Read: func(string) (string, error) { return "0123456789abcdef", nil },
			Catalogue: all, Schemes: []string{"duckdb", "postgres", "postgresql", "parquet", "http"},
		})
		return err
	}
}

// The JSON Schema must accept each configuration that Parse accepts. It must refuse each configuration with an unknown
// key.
func TestValidConfigurations(t *testing.T) {
	t.Parallel()
	valid, parse := validator(t), parserFor(t)
	unknown := regexp.MustCompile(`unknown key "`)
	read, refused := 0, 0
	for name, text := range everyConfiguration(t) {
		err := parse(text)
		switch {
		case err == nil:
			read++
			require.NoError(t, valid(text), "%s:\n%s", name, text)
		case unknown.MatchString(err.Error()):
			refused++
			require.Error(t, valid(text), "%s: %v", name, err)
		}
	}
	require.Greater(t, read, 40)
	require.Greater(t, refused, 0)
}

var fence = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func everyConfiguration(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	pages, err := filepath.Glob("../../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, "../../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range fence.FindAllSubmatch(text, -1) {
			all[filepath.Base(page)+": "+string(m[1][:min(30, len(m[1]))])] = m[1]
		}
	}
	all["pipelines.yaml"], err = os.ReadFile("../../../pipelines.yaml")
	require.NoError(t, err)
	scripts, err := filepath.Glob("../../penstock/testdata/script/*.txtar")
	require.NoError(t, err)
	for _, path := range scripts {
		archive, err := txtar.ParseFile(path)
		require.NoError(t, err)
		for _, f := range archive.Files {
			if strings.HasSuffix(f.Name, ".yaml") {
				all[filepath.Base(path)+" "+f.Name] = f.Data
			}
		}
	}
	return all
}

// In every mapping, both the schema and Parse must refuse an unknown key. Parse must know every key that the schema
// has.
func TestSchemaMatchesReader(t *testing.T) {
	t.Parallel()
	valid, parse := validator(t), parserFor(t)
	text, err := Describe()
	require.NoError(t, err)
	var root jsonSchema
	require.NoError(t, json.NewDecoder(bytes.NewReader(text)).Decode(&root))
	places := 0
	var walk func(s *jsonSchema, p place)
	walk = func(s *jsonSchema, p place) {
		if slices.Equal(p, place{"sources", "template"}) {
			return // without rows, Parse does not read the template: see TestListedSourcesAreValid
		}
		for _, one := range s.AnyOf {
			walk(one, p)
		}
		if s.Items != nil {
			walk(s.Items, append(slices.Clone(p), anyEntry))
		}
		if of := schemaOf(t, s.Additional); of != nil {
			walk(of, append(slices.Clone(p), anyKey))
		}
		if s.Properties == nil {
			return
		}
		places++
		file, fault := []byte(p.file("{penstok: 1}")), `unknown key "penstok"`
		if schemaOf(t, s.Additional) != nil {
			fault = "penstok is a number" // the user chooses the keys of this mapping, so penstok is a valid key
		}
		require.ErrorContains(t, parse(file), fault, "%s", p)
		require.Error(t, valid(file), "%s", p)
		for key, of := range s.Properties {
			at := append(slices.Clone(p), key)
			if err := parse([]byte(at.file("probe"))); err != nil {
				require.NotContains(t, err.Error(), "unknown key", "%s", at)
			}
			walk(of, at)
		}
	}
	walk(&root, nil)
	require.Greater(t, places, 30)
}

func schemaOf(t *testing.T, v any) *jsonSchema {
	t.Helper()
	if _, ok := v.(map[string]any); !ok {
		return nil
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	s := &jsonSchema{}
	require.NoError(t, json.NewDecoder(io.Reader(bytes.NewReader(text))).Decode(s))
	return s
}

// In a template, the JSON Schema must also accept a field such as {plan} in places where other files may have only
// fixed words. It must still refuse unknown keys.
func TestListedSourcesAreValid(t *testing.T) {
	t.Parallel()
	valid := validator(t)
	file := func(from, template string) []byte {
		return []byte("version: 1\nsources: {from: " + from + ", template: " + template + "}\n" +
			"destinations: {w: \"duckdb:w.duckdb\"}\npipelines: {all: {from: \"*\", to: w, streams: v2.contacts}}\n")
	}
	template := `{v2: {base_url: "{url}", plan: "{plan}", auth: {api_key: "{key}"}}}`
	for _, from := range []string{"{file: ws.csv, secret: [key]}", "{command: [list, all], timeout: 10s}", "{query: SELECT 1, of: w, name: id}"} {
		require.NoError(t, valid(file(from, template)), from)
	}
	require.Error(t, valid(file("{files: ws.csv}", template)))
	require.Error(t, valid(file("{file: ws.csv}", "{v3: {}}")))
}
