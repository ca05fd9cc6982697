package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A ${…} in a value of a row is not expanded. If a value becomes a ${…} only together with the text around it in the
// template, it is not expanded either.
func TestTemplateExpandsNoRow(t *testing.T) {
	in := input()
	in.Env = func(name string) (string, bool) { return "env-" + name, true }
	in.Read = func(path string) (string, error) { return "file-" + path, nil }
	for _, c := range []struct {
		template string
		row      map[string]string
		want     string
	}{
		{"{key}", map[string]string{"key": "${HOME}"}, "${HOME}"},
		{"{key}", map[string]string{"key": "$${HOME}"}, "$${HOME}"},
		{"{a}{b}", map[string]string{"a": "x$", "b": "{file:/etc/shadow}"}, "x${file:/etc/shadow}"},
		{"{a}{b}", map[string]string{"a": "{", "b": "b}"}, "{b}"},
		{"${KEY_{name}}", nil, "env-KEY_one"},
		{"{a}${KEY_{name}}", map[string]string{"a": "pa$"}, "pa$env-KEY_one"},
		{"$${KEY}-${file:keys/{name}}-{name}", nil, "${KEY}-file-keys/one-one"},
		{"$5 {a}", map[string]string{"a": "b"}, "$5 b"},
	} {
		in.Rows = func(Listing) ([]Row, error) {
			row := Row{Fields: map[string]string{"name": "one"}}
			for k, v := range c.row {
				row.Fields[k] = v
			}
			return []Row{row}, nil
		}
		text := strings.Replace(minimal, minimal[strings.Index(minimal, "  main:"):strings.Index(minimal, "destinations:")],
			"  from: {file: w.csv}\n  template: {app: {base_url: https://app.example.test, auth: {token: '"+c.template+"'}}}\n", 1)
		text = strings.Replace(text, "from: main", "from: '*'", 1)
		conf, err := Parse([]byte(text), in)
		require.NoError(t, err, text)
		require.Nil(t, conf.Sources[0].Faults, c.template)
		require.Equal(t, c.want, conf.Sources[0].App.Auth.Token.Reveal(), c.template)
	}
}
