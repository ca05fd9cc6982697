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
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
)

func sourcesAddCmd(a *app) *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "add a source to the file that lists them",
		Long: `Adds a row to the CSV file of sources: {from: {file: …}}. Fields that may be secret
are written only if no other user can read the file.`,
		Example: `  penstock sources add acme --set api_key="$KEY"`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			return addSource(a, c, args[0], set)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "a `field=value` of the row; may be repeated")
	return cmd
}

// addSource adds a row to the list. This is atomic: a concurrent reader sees the old list or the new list.
func addSource(a *app, c *config.Config, name string, set []string) error {
	l := c.Listing
	switch {
	case l == nil || !strings.EqualFold(filepath.Ext(l.File), ".csv"):
		return failure.Usage("use `sources: {from: {file: workspaces.csv}, template: …}`", "the sources of this configuration are not listed in a CSV file")
	case !config.IsName(name):
		return failure.Usage("", "%q is not a valid source name; want a letter, then letters, digits, - and _", name)
	}
	if slices.ContainsFunc(c.Sources, func(s config.Source) bool { return strings.EqualFold(s.Name, name) }) {
		return failure.Usage("", "source %s already exists", name)
	}
	fields := map[string]string{l.Name: name}
	for _, s := range set {
		field, value, ok := strings.Cut(s, "=")
		if !ok {
			return failure.Usage("", "--set: want field=value")
		}
		fields[field] = value
	}
	if err := appendRow(l.File, fields); err != nil {
		return fmt.Errorf("add source %s: %w", name, err)
	}
	return a.say("added %s to %s\n", name, l.File)
}

// appendRow adds a row to the list: it replaces the file by a new file.
func appendRow(path string, fields map[string]string) error {
	info, err := os.Stat(path)
	if err != nil {
		return failure.PathCause(err)
	}
	if len(fields) > 1 && info.Mode().Perm()&0o077 != 0 { // Invariant 5
		return failure.Usage("chmod 600 "+path+", or take fields from ${file:…/{name}} in the template",
			"other users can read %s (mode %04o), and a field may be a secret", path, info.Mode().Perm())
	}
	text, err := open.ReadUpTo(path, open.MaxListBytes)
	if err != nil {
		return failure.PathCause(err)
	}
	header, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\uFEFF")))).Read()
	if err != nil {
		return errors.New("the first line must have the names of the fields")
	}
	row := make([]string, len(header))
	for i, name := range header {
		name = strings.TrimSpace(name)
		row[i] = fields[name]
		delete(fields, name)
	}
	for name := range fields {
		return failure.Usage("its fields are "+strings.Join(header, ", "), "%s has no field %q", path, name)
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
