package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/dbt"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// docsForms are the formats of the data dictionary, by name. Each has a file name, which is used if the user gives
// only a folder, and a function that writes the dictionary.
// The form dbt is a folder, so it has neither.
var docsForms = map[string]struct {
	file  string
	write func(io.Writer, render.Dictionary) error
}{
	"markdown": {"dictionary.md", render.WriteMarkdown},
	"html":     {"dictionary.html", render.WriteHTML},
	"dbt":      {},
}

func docsCmd(a *app) *cobra.Command {
	var to open.Selection
	var format, file string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "write a data dictionary of what is loaded, for people or for dbt",
		Long: `Writes a data dictionary of what is loaded: tables, columns, types, the source
fields, and for each table the endpoint, the time and the verdict of the last reading,
and the number of rows. The format is Markdown, one HTML page, or the folder of a dbt
project with sources, staging models and tests.`,
		Example: `  penstock docs --format html -o dictionary.html
  penstock docs --format dbt -o analytics/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, ok := docsForms[format]
			if !ok {
				return failure.Usage("", "--format %q: want %s", format, strings.Join(slices.Sorted(maps.Keys(docsForms)), ", "))
			}
			if a.json && cmd.Flags().Changed("format") {
				return failure.Usage("", "--format and --json contradict each other")
			}
			if format == "dbt" && !a.json {
				return a.open.Read(cmd.Context(), to, func(d *open.Reader) error { return writeProject(cmd.Context(), a, d, file) })
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

// writeProject writes a dbt project into a folder. Files that the user has made stay as they are.
func writeProject(ctx context.Context, a *app, d *open.Reader, folder string) error {
	if folder == "" {
		return failure.Usage("`penstock docs --format dbt -o analytics`", "--format dbt writes a folder; name it with --output")
	}
	if s, err := os.Stat(folder); err == nil && !s.IsDir() {
		return failure.Usage("", "write %s: it is not a folder", folder)
	}
	if scheme := d.Config.Scheme; d.Kind.Files == nil && scheme != "duckdb" && !strings.HasPrefix(scheme, "postgres") {
		return failure.Usage("select another destination with --to", "--format dbt writes projects for DuckDB, Postgres and Parquet, not for %s", scheme)
	}
	dict, err := knowledge.ReadDictionary(ctx, d)
	if err != nil {
		return err
	}
	files, err := dbt.Project(dict)
	if err != nil {
		return err
	}
	done, err := dbt.Write(folder, files, func(name string, text []byte) error {
		if err := a.makeFolder(filepath.Dir(name)); err != nil {
			return err
		}
		return a.writeTo(name, func(w io.Writer) error { _, err := w.Write(text); return err })
	})
	if err != nil {
		return err
	}
	for _, name := range done.Kept {
		fmt.Fprintf(a.err, "kept %s: it is not made by penstock\n", name)
	}
	_, err = fmt.Fprintf(a.out, "%s: %s written, %d removed\n", folder, render.Plural(done.Written, "file"), done.Removed)
	return err
}
