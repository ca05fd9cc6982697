package main

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

func (a *app) sourcesAddCmd() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "write a source into the file that lists them",
		Long: `Writes a row into the CSV file of sources: {from: {file: …}}. A field that may be
a secret is written only where nobody but its owner can read the file.`,
		Example: `  penstock sources add acme --set api_key="$KEY"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			return a.addSource(c, args[0], set)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "a `field=value` of the row; may be repeated")
	return cmd
}

// addSource adds a row to the list, all at once: whoever reads it meanwhile finds
// the list before or after.
func (a *app) addSource(c *config.Config, name string, set []string) error {
	l := c.Listing
	switch {
	case l == nil || !strings.EqualFold(filepath.Ext(l.File), ".csv"):
		return usage("`sources: {from: {file: workspaces.csv}, template: …}` lists them in one", "the configuration lists its sources in no CSV file")
	case !config.IsName(name):
		return usage("", "%q is no name of a source; want a letter, then letters, digits, - and _", name)
	}
	if slices.ContainsFunc(c.Sources, func(s config.Source) bool { return strings.EqualFold(s.Name, name) }) {
		return usage("", "there is a source %s already", name)
	}
	fields := map[string]string{l.Name: name}
	for _, s := range set {
		field, value, ok := strings.Cut(s, "=")
		if !ok {
			return usage("", "--set: want field=value")
		}
		fields[field] = value
	}
	if err := appendRow(l.File, fields); err != nil {
		return fmt.Errorf("add source %s: %w", name, err)
	}
	return a.say("added %s to %s\n", name, l.File)
}

// appendRow writes the file anew with one row more, and puts it in the place of
// the one before.
func appendRow(path string, fields map[string]string) error {
	info, err := os.Stat(path)
	if err != nil {
		return pathCause(err)
	}
	if len(fields) > 1 && info.Mode().Perm()&0o077 != 0 { // Invariant 5
		return usage("chmod 600 "+path+", or give fields through ${file:…/{name}} in the template",
			"others may read %s (mode %04o), and a field may be a secret", path, info.Mode().Perm())
	}
	text, err := readUpTo(path, mostBytes)
	if err != nil {
		return pathCause(err)
	}
	header, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\uFEFF")))).Read()
	if err != nil {
		return errors.New("it has no line that names the fields")
	}
	row := make([]string, len(header))
	for i, name := range header {
		name = strings.TrimSpace(name)
		row[i] = fields[name]
		delete(fields, name)
	}
	for name := range fields {
		return usage("its fields are "+strings.Join(header, ", "), "%s has no field %q", path, name)
	}
	out := bytes.NewBuffer(text)
	if !bytes.HasSuffix(text, []byte("\n")) {
		out.WriteByte('\n')
	}
	w := csv.NewWriter(out)
	if err := errors.Join(w.Write(row), flushed(w)); err != nil {
		return err
	}
	return replaceFile(path, out.Bytes())
}

func flushed(w *csv.Writer) error {
	w.Flush()
	return w.Error()
}
