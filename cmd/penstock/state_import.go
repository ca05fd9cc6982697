package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/state"
)

// Limits of an import.
const (
	maxCursorLine  = 4 << 20 // the cursor of a stream also contains the cursors of its backfills
	maxCursorLines = 100_000
)

func stateImportCmd(a *app) *cobra.Command {
	var f moveFlags
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "set cursors from an export or a backup",
		Long: `Sets cursors from an export or a backup. Cursors that are not in the file stay.
If FILE is -, standard input is read. If any line is invalid, nothing is changed.`,
		Example: `  penstock state import cursors.jsonl
  penstock state import .penstock/backups/cursors-warehouse-20261121T020000.000000Z.jsonl --stream crm.leads`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.to.Sources = true
			return a.open.Read(cmd.Context(), f.to, func(d *open.Reader) error {
				moves, err := readMoves(args[0], d, f.streams)
				if err != nil {
					return err
				}
				return moveCursors(cmd.Context(), a, d, moves, f.yes)
			})
		},
	}
	f.register(cmd)
	cmd.Flags().StringArrayVar(&f.streams, "stream", nil, "only these `streams`; may be repeated")
	return cmd
}

// readMoves reads a file that `state export` has written. If lines are invalid, the error lists all of them.
func readMoves(path string, d *open.Reader, only []string) ([]move, error) {
	in := io.Reader(os.Stdin)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, failure.Usage("", "read cursors: %w", err)
		}
		defer f.Close()
		in = f
	}
	wanted := map[string]bool{}
	for _, s := range only {
		wanted[s] = true
	}
	var moves []move
	var faults []error
	seen := map[state.Key]bool{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxCursorLine)
	for n := 1; lines.Scan(); n++ {
		if n > maxCursorLines {
			faults = append(faults, fmt.Errorf("%s: more than %d lines", path, maxCursorLines))
			break
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		m, err := readMove(lines.Bytes(), d)
		if err == nil && seen[m.key] {
			err = fmt.Errorf("duplicate cursor of %s %s", m.key.Pipeline, history.StreamName(m.key))
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", path, n, err))
			continue
		}
		seen[m.key] = true
		if (len(only) == 0 || wanted[m.key.Stream]) && (!d.Shared || d.Source == "" || d.Source == m.key.Source) {
			moves = append(moves, m)
		}
	}
	if err := lines.Err(); err != nil {
		faults = append(faults, fmt.Errorf("%s: %w", path, err))
	}
	if len(faults) > 0 {
		// Cause: a line of the file is no exported cursor
		return nil, failure.Usage("no cursor was changed; import a file that `penstock state export` has written", "%w", errors.Join(faults...))
	}
	if len(moves) == 0 {
		return nil, failure.Usage("", "%s has no cursors of the selected streams", path)
	}
	return moves, nil
}

func readMove(line []byte, d *open.Reader) (move, error) {
	c := d.Conf
	var l cursorLine
	if err := json.Unmarshal(line, &l); err != nil {
		return move{}, fmt.Errorf("not a line of an export: %w", err)
	}
	m := move{key: state.Key{Pipeline: l.Pipeline, Source: l.Source, Stream: l.Stream}, next: state.Cursor(l.Cursor)}
	if _, ok := c.Pipeline(l.Pipeline); !ok {
		return m, fmt.Errorf("no pipeline %q in %s", l.Pipeline, c.File)
	}
	switch _, known := c.Source(l.Source); {
	case d.Shared && l.Source == "":
		return m, fmt.Errorf("the line names no source, but several sources share the tables of %s", d.Name)
	case !d.Shared && l.Source != "":
		return m, fmt.Errorf("the line names source %s, but %s has the rows of only one source", l.Source, d.Name)
	case d.Shared && !known:
		return m, fmt.Errorf("no source %q in %s", l.Source, c.File)
	}
	if l.Stream == "" || cursor.IsInternal(l.Stream) {
		return m, fmt.Errorf("%q is not a stream", l.Stream)
	}
	return m, cursor.Check(m.next)
}
