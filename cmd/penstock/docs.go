package main

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// docsForms are the formats of the data dictionary, by name. Each has a file name, which is used if the user gives
// only a folder, and a function that writes the dictionary.
var docsForms = map[string]struct {
	file  string
	write func(io.Writer, render.Dictionary) error
}{
	"markdown": {"dictionary.md", render.WriteMarkdown},
	"html":     {"dictionary.html", render.WriteHTML},
	"dbt":      {"sources.yml", render.WriteDBT},
}

func docsCmd(a *app) *cobra.Command {
	var to open.Selection
	var format, file string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "write a data dictionary of what is loaded, for people or for dbt",
		Long: `Writes a data dictionary of what is loaded: tables, columns, types, the source
fields, and for each table the endpoint, the time and the verdict of the last reading,
and the number of rows. The format is Markdown, one HTML page, or dbt sources with
freshness and key tests.`,
		Example: `  penstock docs --format html -o dictionary.html
  penstock docs --format dbt -o models/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, ok := docsForms[format]
			if !ok {
				return failure.Usage("", "--format %q: want %s", format, strings.Join(slices.Sorted(maps.Keys(docsForms)), ", "))
			}
			if a.json && cmd.Flags().Changed("format") {
				return failure.Usage("", "--format and --json contradict each other")
			}
			write := form.write
			if a.json {
				write = func(w io.Writer, d render.Dictionary) error { return render.NewEncoder(w).Encode(d) }
			}
			if s, err := os.Stat(file); err == nil && s.IsDir() || strings.HasSuffix(file, string(filepath.Separator)) {
				file = filepath.Join(file, form.file)
			}
			return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return writeDocs(cmd.Context(), a, d, file, write) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&format, "format", "markdown", "`format`: markdown, html or dbt")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(slices.Sorted(maps.Keys(docsForms)), cobra.ShellCompDirectiveNoFileComp))
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` or folder to write instead of stdout; a name that ends with / is a folder, which is created")
	return cmd
}

func writeDocs(ctx context.Context, a *app, d *open.Reader, file string, write func(io.Writer, render.Dictionary) error) error {
	dict, err := knowledge.ReadDictionary(ctx, d)
	if err != nil {
		return err
	}
	if file != "" {
		if err := a.makeFolder(filepath.Dir(file)); err != nil {
			return err
		}
	}
	return a.writeTo(file, func(w io.Writer) error { return write(w, dict) })
}
