package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

func streamsCmd(a *app) *cobra.Command {
	var module string
	cmd := &cobra.Command{
		Use:   "streams",
		Short: "list the catalogue: every endpoint, and the table of each readable endpoint",
		Long: `Lists the catalogue: every endpoint of both surfaces, and the table that each
readable one fills. With -c it includes the configuration's overrides and
additional streams.`,
		Example: `  penstock streams --module crm
  penstock streams --json | jq -r 'select(.table) | .name'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			streams, err := streamsListed(a, cmd.Flags().Changed("config"))
			if err != nil {
				return err
			}
			return printStreams(a, streams, module)
		},
	}
	cmd.Flags().StringVar(&module, "module", "", "only the streams of this `module`")
	return cmd
}

// streamsListed returns the streams of the configuration, which include the user's own streams. If the argument
// `configured` is false, it returns the streams of the built-in catalogue.
func streamsListed(a *app, configured bool) ([]config.Stream, error) {
	if configured {
		c, err := a.open.LoadDestinations()
		if err != nil {
			return nil, err
		}
		return c.Streams, nil
	}
	cat, err := schemas.Load()
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	var all []config.Stream
	for _, s := range cat.Streams() {
		all = append(all, config.Stream{Stream: s})
	}
	return all, nil
}

// streamLine is one line of `streams --json`. Scripts of users depend on its keys.
type streamLine struct {
	Name    string      `json:"name"`
	Surface string      `json:"surface"`
	Module  string      `json:"module"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Class   string      `json:"class"`
	Table   *string     `json:"table"`
	Parent  *string     `json:"parent"`
	Params  []paramLine `json:"params"`
	Key     []string    `json:"key"`
	Enabled bool        `json:"enabled"`
	Reason  *string     `json:"reason"`
}

type paramLine struct {
	Name  string `json:"name"`
	In    string `json:"in"`
	From  string `json:"from,omitempty"`
	Value string `json:"value,omitempty"`
}

func lineOf(s config.Stream) streamLine {
	l := streamLine{
		Name: s.Name, Surface: string(s.Surface), Module: s.Module, Method: s.Method, Path: s.Origin + s.Path, Class: string(s.Class),
		Parent: orNull(s.Parent), Params: []paramLine{}, Key: append([]string{}, s.Key...), Enabled: s.Enabled, Reason: orNull(s.Reason),
	}
	if s.Readable() {
		l.Table = orNull(s.Table.Name)
	}
	for _, p := range s.Params {
		l.Params = append(l.Params, paramLine(p))
	}
	return l
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func printStreams(a *app, streams []config.Stream, module string) error {
	enc := render.NewEncoder(a.out)
	g := render.NewTable("stream", "class", "method", "path", "table", "parent", "note")
	modules := map[string]bool{}
	listed, readable, enabled := 0, 0, 0
	for _, s := range streams {
		modules[s.Module] = true
		if module != "" && s.Module != module {
			continue
		}
		listed++
		if a.json {
			if err := enc.Encode(lineOf(s)); err != nil {
				return err
			}
			continue
		}
		note := ""
		switch {
		case !s.Readable():
			note = "never read"
		case !s.Enabled:
			note = "off: " + s.Reason
		default:
			enabled++
		}
		table := ""
		if s.Readable() {
			readable++
			table = s.Table.Name
		}
		g.Add(s.Name, string(s.Class), s.Method, s.Origin+s.Path, table, s.Parent, note)
	}
	if listed == 0 {
		return failure.Usage("the modules are "+strings.Join(slices.Sorted(maps.Keys(modules)), ", "), "no module %q", module)
	}
	if !a.json {
		g.Render(a.out)
		fmt.Fprintf(a.out, "\n%d endpoints, %d readable, %d of them enabled\n", listed, readable, enabled)
	}
	return nil
}
