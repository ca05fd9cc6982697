package main

import (
	"context"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

//go:embed templates
var templates embed.FS

// docsForms are the forms of the data dictionary, by name: the default file name in a folder, and the writer.
var docsForms = map[string]struct {
	file  string
	write func(io.Writer, dictionary) error
}{
	"markdown": {"dictionary.md", writeMarkdown},
	"html":     {"dictionary.html", writeHTML},
	"dbt":      {"sources.yml", writeDBT},
}

func (a *app) docsCmd() *cobra.Command {
	var to selection
	var format, file string
	cmd := &cobra.Command{
		Use:   "docs",
		Short: "write a data dictionary of what is loaded, for people or for dbt",
		Long: `Writes a data dictionary of what is loaded: tables, columns, types, the source
fields, the endpoint of each table, when it was last read and with which verdict,
and its number of rows. The format is Markdown, one HTML page, or dbt sources with
freshness and key tests.`,
		Example: `  penstock docs --format html -o dictionary.html
  penstock docs --format dbt -o models/`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			form, ok := docsForms[format]
			if !ok {
				return failure.Usage("", "--format %q: want %s", format, strings.Join(sortedKeys(docsForms), ", "))
			}
			if a.json && cmd.Flags().Changed("format") {
				return failure.Usage("", "--format and --json contradict each other")
			}
			write := form.write
			if a.json {
				write = func(w io.Writer, d dictionary) error { return lineWriter(w).Encode(d) }
			}
			if s, err := os.Stat(file); err == nil && s.IsDir() {
				file = filepath.Join(file, form.file)
			}
			return a.read(cmd.Context(), to, func(d *reader) error { return a.docs(cmd.Context(), d, file, write) })
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&format, "format", "markdown", "`format`: markdown, html or dbt")
	cmd.Flags().StringVarP(&file, "output", "o", "", "`file` or folder to write instead of stdout")
	return cmd
}

func (a *app) docs(ctx context.Context, d *reader, file string, write func(io.Writer, dictionary) error) error {
	dict, err := d.dictionary(ctx)
	if err != nil {
		return err
	}
	return a.writeTo(file, func(w io.Writer) error { return write(w, dict) })
}

func writeMarkdown(w io.Writer, d dictionary) error {
	t, err := template.New("dictionary.md").Funcs(template.FuncMap{
		"grouped": grouped, "shown": shown, "cell": markdownCell, "join": strings.Join,
	}).ParseFS(templates, "templates/dictionary.md")
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	return t.Execute(w, d)
}

// markdownCell escapes text for a table cell.
func markdownCell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;", "`", "'").Replace(printable(s, false))
}

func writeHTML(w io.Writer, d dictionary) error {
	t, err := htmltemplate.New("dictionary.html").Funcs(htmltemplate.FuncMap{
		"grouped": grouped, "shown": shown, "join": strings.Join,
	}).ParseFS(templates, "templates/dictionary.html")
	if err != nil {
		return fmt.Errorf("write dictionary: %w", err)
	}
	return t.Execute(w, d)
}
