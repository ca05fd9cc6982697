package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/imports"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// importing has the flags of import.
type importing struct {
	output  string
	write   bool
	base    string
	surface string
	module  string
	only    []string
	part    imports.Selection
}

// descriptions has the parsers of API descriptions, by format.
var descriptions = map[string]func(file string, data []byte) (*imports.Description, error){
	"openapi": imports.OpenAPI,
	"postman": imports.Postman,
}

func importCmd(a *app) *cobra.Command {
	var f importing
	cmd := &cobra.Command{
		Use:   "import openapi|postman FILE",
		Short: "turn an API's published description into stream definitions",
		Long: `Turns an API's published description into the streams of pipelines.yaml: paths,
parameters, paging, records, keys, columns with types and meanings. The description
is an OpenAPI 3 document (JSON or YAML) or a Postman collection (v2). Only read
operations become streams. A stream of the catalogue is overridden, never
duplicated. A GET with a parameter in its path, such as /orders/{id}/lines, becomes
a child stream of the list /orders. If no list clearly fits, the stream is disabled,
and the output says why.

Without -o or --write the definitions go to stdout. With one of them they are
merged into a file, where each stream has an "imported:" block. The next import
replaces that block. Everything else in the file is yours: it takes precedence
and is never changed. Streams whose operations are no longer in the description
are reported and kept.

A configuration may have 1 MiB and 50,000 words and signs. This is enough for about
200 streams with many columns. From a larger description, import a part with --tag,
--path or --only. If a description has more than 100 GET operations, each of its tags
becomes a module.`,
		Example: `  penstock import openapi platform.yaml
  penstock import openapi platform.yaml --write
  penstock import openapi github.json --tag issues --tag pulls --write
  penstock import openapi github.json --path '/orgs/*' -o orgs.yaml
  penstock import postman shop.json --base-url https://shop.example/api -o shop.yaml`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: slices.Sorted(maps.Keys(descriptions)),
		RunE:      func(_ *cobra.Command, args []string) error { return importFile(a, args[0], args[1], f) },
	}
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "merge the streams into this `file` instead of printing them")
	cmd.Flags().BoolVar(&f.write, "write", false, "merge the streams into the configuration")
	cmd.Flags().StringVar(&f.base, "base-url", "", "`URL` of the API; overrides the URL in the description")
	cmd.Flags().StringVar(&f.surface, "surface", "", "`surface` of the platform that the document describes: app or v2")
	cmd.Flags().StringVar(&f.module, "module", "", "`module` of new streams (default: made from the title)")
	cmd.Flags().StringSliceVar(&f.only, "only", nil, "only streams that match a `pattern`, such as crm.*")
	cmd.Flags().StringArrayVar(&f.part.Tags, "tag", nil, "only operations with this `tag`, or in this folder of a collection; may be repeated")
	cmd.Flags().StringArrayVar(&f.part.Paths, "path", nil, "only operations whose path matches a `pattern`, such as '/orders*'; may be repeated")
	return cmd
}

func (f importing) check(format string) error {
	if _, ok := descriptions[format]; !ok {
		return failure.Usage("", "import %q: want %s", format, strings.Join(slices.Sorted(maps.Keys(descriptions)), " or "))
	}
	if f.write && f.output != "" {
		return failure.Usage("", "--write and -o contradict each other")
	}
	if f.surface != "" && f.base != "" {
		return failure.Usage("", "--surface and --base-url contradict each other")
	}
	if s := schemas.Surface(f.surface); f.surface != "" && s != schemas.SurfaceApp && s != schemas.SurfaceV2 {
		return failure.Usage("", "--surface %q: want app or v2", f.surface)
	}
	if u, err := url.Parse(f.base); f.base != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return failure.Usage("", "--base-url %q: want https://host/path", f.base)
	}
	if f.module != "" && !config.IsModule(f.module) {
		return failure.Usage("", "--module %q: want lower-case letters, digits and _, such as shop", f.module)
	}
	for _, p := range f.only {
		if _, err := path.Match(p, ""); err != nil {
			return failure.Usage("", "--only %q: not a valid pattern", p)
		}
	}
	return nil
}

func importFile(a *app, format, file string, f importing) error {
	if err := f.check(format); err != nil {
		return err
	}
	data, err := open.ReadUpTo(file, imports.MaxBytes+1)
	if err != nil && strings.Contains(file, "://") {
		return failure.Usage("download the description, and pass the file", "%s is an address, not a file", file)
	}
	if err != nil {
		return failure.Usage("", "read description %s: %w", file, failure.PathCause(err))
	}
	d, err := descriptions[format](file, data)
	if err != nil {
		return badDescription(err)
	}
	target := f.output
	if f.write {
		target = a.open.File
	}
	have, err := existing(target, f.write)
	if err != nil {
		return err
	}
	entries, err := imports.Entries(target, have)
	if err != nil {
		return badDescription(err)
	}
	catalogue, origins, err := catalogueAndOrigins(a)
	if err != nil {
		return err
	}
	streams, outcomes, err := imports.Define(d, imports.Options{
		File: file, BaseURL: f.base, Surface: schemas.Surface(f.surface), Module: f.module,
		Origins: origins, Catalogue: catalogue, Entries: entries, Select: f.part,
	})
	if err != nil {
		return badDescription(err)
	}
	if f.part.Empty() {
		outcomes = append(outcomes, imports.Gone(entries, streams, outcomes)...)
	}
	all := streams
	streams = slices.DeleteFunc(slices.Clone(all), func(s imports.Stream) bool { return !f.wants(s.Name) })
	if len(streams) == 0 && len(all) > 0 {
		return failure.Usage("without --only, the output lists all streams of the description", "%s: --only selects none of its streams", file)
	}
	out, changes, err := imports.Merge(target, have, streams)
	if err != nil {
		return tooLarge(badDescription(err), d)
	}
	return finishImport(a, target, out, f, outcomes, changes)
}

// wants reports whether the flags select a stream.
func (f importing) wants(stream string) bool {
	return len(f.only) == 0 || slices.ContainsFunc(f.only, func(p string) bool {
		ok, err := path.Match(p, stream)
		return ok && err == nil
	})
}

func finishImport(a *app, target string, out []byte, f importing, outcomes []imports.Outcome, changes []imports.Change) error {
	if target != "" && slices.ContainsFunc(changes, func(c imports.Change) bool { return c.Action != imports.Same }) {
		if err := replaceFile(target, out); err != nil {
			return err
		}
	}
	lines := importLines(outcomes, changes, f)
	switch {
	case a.json:
		return printJSON(a.out, lines)
	case target == "":
		if _, err := a.out.Write(out); err != nil {
			return err
		}
		if !a.quiet {
			fmt.Fprintln(a.err, imported(lines))
		}
		return nil
	}
	g := render.NewTable("operation", "stream", "is", "file", "note")
	for _, l := range lines {
		g.Add(l.Operation, l.Stream, l.Action, l.File, l.Reason)
	}
	g.Render(a.out)
	fmt.Fprintf(a.out, "\n%s\n", imported(lines))
	return nil
}

// importLine is one line of `import --json`.
type importLine struct {
	imports.Outcome
	File string `json:"file,omitempty"` // what happened to the stream in the file: added, changed, same or kept
}

func importLines(outcomes []imports.Outcome, changes []imports.Change, f importing) []importLine {
	did := map[string]string{}
	for _, c := range changes {
		did[c.Stream] = c.Action
	}
	var all []importLine
	for _, o := range outcomes {
		l := importLine{Outcome: o, File: did[o.Stream]}
		switch {
		case o.Stream != "" && !f.wants(o.Stream):
			continue
		case o.Action == imports.Vanished:
			l.File = "kept"
		}
		all = append(all, l)
	}
	return all
}

// imported() summarizes all operations in one sentence.
func imported(lines []importLine) string {
	n := map[string]int{}
	for _, l := range lines {
		n[l.Action]++
	}
	text := fmt.Sprintf("%s: %d in the catalogue, %d new, %d disabled, %d that write and are never requested, %d skipped",
		render.Plural(len(lines)-n[imports.Vanished], "operation"), n[imports.Overrides], n[imports.Adds], n[imports.Off], n[imports.Writes], n[imports.Skips])
	if gone := n[imports.Vanished]; gone > 0 {
		text += fmt.Sprintf("; %d no longer described", gone)
	}
	return text
}

func printJSON(w io.Writer, lines []importLine) error {
	enc := render.NewEncoder(w)
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// existing() returns the content of the file that the streams are merged into, or nil if no file is given. For a file
// that does not exist, it returns an error if the argument `needed` is true, and nil otherwise.
func existing(file string, needed bool) ([]byte, error) {
	if file == "" {
		return nil, nil
	}
	data, err := open.ReadUpTo(file, open.MaxConfig)
	if errors.Is(err, fs.ErrNotExist) && !needed {
		return nil, nil
	}
	if err != nil {
		return nil, failure.Usage("name the configuration with -c, or a new file with -o", "read %s: %w", file, failure.PathCause(err))
	}
	return data, nil
}

// catalogueAndOrigins returns the catalogue, and the base URLs in the configuration. If the configuration cannot be
// read, it returns no base URLs.
func catalogueAndOrigins(a *app) (catalogue []schemas.Stream, origins []string, err error) {
	cat, err := schemas.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("load catalogue: %w", err)
	}
	c, err := a.open.Load()
	if err != nil {
		return cat.Streams(), nil, nil // the configuration may not exist yet
	}
	for _, s := range c.Sources {
		for _, surface := range []*config.Surface{s.V2, s.App} {
			if surface != nil {
				origins = append(origins, surface.BaseURL)
			}
		}
	}
	return cat.Streams(), origins, nil
}

// tooLarge adds the tags of a description to the hint for a description that is too large.
func tooLarge(err error, d *imports.Description) error {
	if e, ok := errors.AsType[*failure.Error](err); ok && e.Hint == imports.HintTooLarge && d.Tags() != "" {
		e.Hint += "; the tags, with their GET operations, are " + d.Tags()
	}
	return err
}

// badDescription turns an error in the description into a usage error with the hint of the parser.
func badDescription(err error) error {
	if e, ok := errors.AsType[*imports.Error](err); ok {
		return &failure.Error{Err: err, Hint: e.Hint, Code: failure.ExitUsage}
	}
	return err
}
