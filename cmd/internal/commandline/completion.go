// Package commandline completes names on the command line, and reports errors of the command line.
package commandline

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/schemas"
)

// Complete adds completions to a command and to all commands below it, for the scripts that `penstock completion`
// writes. The words in Use say what an argument is, such as PIPELINE or STREAM. The name of a flag says what its value
// is. The function file() returns the configuration file. Completions read only this file and the catalogue. They open
// no source and no destination.
func Complete(root *cobra.Command, file func() string) {
	c := completer{file}
	for _, cmd := range root.Commands() {
		Complete(cmd, file)
	}
	if root.ValidArgsFunction == nil && len(root.ValidArgs) == 0 {
		root.ValidArgsFunction = c.arguments(root)
	}
	root.LocalFlags().VisitAll(func(f *pflag.Flag) {
		names := c.ofFlag(f)
		if _, done := root.GetFlagCompletionFunc(f.Name); names == nil || done {
			return
		}
		_ = root.RegisterFlagCompletionFunc(f.Name, listed(names)) // fails only for a flag that does not exist or has a completion
	})
}

// completer returns the names that can complete an argument or the value of a flag.
type completer struct{ file func() string }

// arguments returns the completion of a command's arguments.
func (c completer) arguments(cmd *cobra.Command) cobra.CompletionFunc {
	words := strings.Fields(cmd.Use)[1:]
	if slices.Contains(words, "FILE") || slices.Contains(words, "DIR") {
		return nil // the shell completes names of files
	}
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := len(args)
		if n := len(words); n > 0 && at >= n && strings.HasSuffix(strings.TrimRight(words[n-1], "]"), "…") {
			at = n - 1 // the last argument may be repeated
		}
		if at >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := c.named(strings.Trim(words[at], "[]…"))
		if names == nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return listed(names)(cmd, args, typed)
	}
}

// named returns the names that a word in Use means; nil if the word means something else.
func (c completer) named(word string) func() []string {
	switch word {
	case "PIPELINE":
		return func() []string { return c.names().Pipelines }
	case "SOURCE":
		return func() []string { return c.names().Sources }
	case "SURFACE":
		return func() []string { return []string{string(schemas.SurfaceApp), string(schemas.SurfaceV2)} }
	case "STREAM":
		return c.streams
	}
	return nil
}

// ofFlag returns the names that can be the value of a flag; nil if the value is something else.
func (c completer) ofFlag(f *pflag.Flag) func() []string {
	switch {
	case f.Name == "pipeline", f.Name == "source", f.Name == "surface", f.Name == "stream":
		return c.named(strings.ToUpper(f.Name))
	case f.Name == "to" && strings.Contains(f.Usage, "name` of the destination"):
		return func() []string { return c.names().Destinations }
	case f.Name == "module":
		return c.modules
	case f.Name == "log-format":
		return func() []string { return []string{"text", "json"} }
	}
	return nil
}

// names returns the names in the configuration. If the file cannot be read, there are none.
func (c completer) names() config.Names {
	data, err := open.ReadUpTo(c.file(), open.MaxConfig)
	if err != nil {
		return config.Names{}
	}
	return config.ReadNames(data)
}

// streams returns the streams that can be read: those of the catalogue, and those of the configuration.
func (c completer) streams() []string {
	all := c.names().Streams
	if cat, err := schemas.Load(); err == nil {
		for _, s := range cat.Streams() {
			if s.Readable() {
				all = append(all, s.Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// modules returns the modules of the streams.
func (c completer) modules() []string {
	all := c.streams()
	for i, name := range all {
		all[i], _, _ = strings.Cut(name, ".")
	}
	return slices.Compact(all)
}

// listed completes a word with those names that begin with it.
func listed(names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (matching []cobra.Completion, _ cobra.ShellCompDirective) {
		for _, name := range names() {
			if strings.HasPrefix(name, typed) {
				matching = append(matching, name)
			}
		}
		return matching, cobra.ShellCompDirectiveNoFileComp
	}
}
