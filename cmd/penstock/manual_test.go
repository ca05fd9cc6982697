package main

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

var manual = flag.String("man", "", "folder to write the manual's pages to, as make man does")

// TestEveryVerbIsDescribed: help, completion and the manual are generated from the definitions of the commands. So
// each command and each flag must have a description.
func TestEveryVerbIsDescribed(t *testing.T) {
	t.Parallel()
	a := &app{out: io.Discard, err: io.Discard}
	eachVerb(a.root(), func(c *cobra.Command) {
		path := c.CommandPath()
		require.NotEmpty(t, c.Short, path)
		require.False(t, strings.HasSuffix(c.Short, "."), "%s: the short description must not end with a period", path)
		if !c.HasSubCommands() {
			require.NotEmpty(t, c.Long+c.Example, "%s needs an example or a long description", path)
		}
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			require.True(t, strings.Contains(line, "penstock "), "%s: the example %q does not call penstock", path, line)
		}
		c.Flags().VisitAll(func(f *pflag.Flag) { require.NotEmpty(t, f.Usage, "%s --%s", path, f.Name) })
	})
}

// eachVerb calls visit for the commands that users see, at all levels.
func eachVerb(c *cobra.Command, visit func(*cobra.Command)) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			visit(sub)
			eachVerb(sub, visit)
		}
	}
}

// TestManual writes a man page for each command. `man -l FILE` shows a page.
func TestManual(t *testing.T) {
	dir := *manual
	if dir == "" {
		dir = t.TempDir()
	}
	require.NoError(t, os.MkdirAll(dir, 0o755))
	a := &app{out: io.Discard, err: io.Discard}
	root := a.root()
	root.DisableAutoGenTag = true
	require.NoError(t, doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "penstock", Manual: "penstock"}, dir))
	eachVerb(root, func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		require.NoError(t, err)
		require.Contains(t, string(page), ".SH NAME")
		require.Contains(t, string(page), ".SH SYNOPSIS")
	})
}
