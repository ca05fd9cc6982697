package open

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load"
)

// Limits of a list of sources, in rows and bytes. // Invariant 15
const (
	maxListed    = 100_000
	MaxListBytes = 64 << 20
)

// Listed reads a list of sources from a file, a command or a query. Its errors contain no values of rows, because these
// may be secret. // Invariant 5
func (o *Opener) Listed(l config.Listing) ([]config.Row, error) {
	ctx, cancel := context.WithTimeout(o.processContext(), l.Timeout)
	defer cancel()
	switch {
	case l.File != "":
		return listedIn(l.File)
	case l.Command != nil:
		if err := o.mayRun(l.Command[0]); err != nil {
			return nil, err
		}
		return listedBy(ctx, l.Command)
	}
	return o.listedByQuery(ctx, l)
}

// listedIn reads a list from a file. The extension says which format the file has.
func listedIn(path string) ([]config.Row, error) {
	text, err := ReadUpTo(path, MaxListBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, failure.PathCause(err))
	}
	var rows []config.Row
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".csv":
		rows, err = csvRows(text)
	case ".json", ".jsonl", ".ndjson":
		rows, err = jsonRows(text)
	case ".yaml", ".yml":
		rows, err = yamlRows(text)
	default:
		err = fmt.Errorf("unknown extension %q; want .csv, .yaml or .json", ext)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for i := range rows {
		rows[i].File = path
	}
	return rows, nil
}

// csvRows parses a table whose first line names the fields.
func csvRows(text []byte) (rows []config.Row, err error) {
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\uFEFF"))))
	r.TrimLeadingSpace = true
	names, err := r.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("file is empty; want a first line with field names")
	}
	for err == nil {
		var cells []string
		if cells, err = r.Read(); err != nil {
			break
		}
		line, _ := r.FieldPos(0)
		row := config.Row{Line: line, Fields: map[string]string{}}
		for i, name := range names {
			row.Fields[strings.TrimSpace(name)] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, row)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return rows, nil
}

// jsonRows parses JSON objects, in an array or one after the other. A truncated list is an error, because otherwise the
// sources at its end would be missing without a message.
func jsonRows(text []byte) ([]config.Row, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	array := bytes.HasPrefix(bytes.TrimSpace(text), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return nil, errors.New("not valid JSON")
		}
	}
	var rows []config.Row
	line := func() int { return 1 + bytes.Count(text[:d.InputOffset()], []byte("\n")) }
	for d.More() {
		at := line()
		var fields map[string]any
		if err := d.Decode(&fields); err != nil {
			return nil, fmt.Errorf("line %d: want JSON objects", at)
		}
		rows = append(rows, config.Row{Line: at, Fields: asTexts(fields)})
	}
	if array {
		if _, err := d.Token(); err != nil {
			return nil, fmt.Errorf("line %d: the array is not closed", line())
		}
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("line %d: unexpected text after the JSON objects", line())
	}
	return rows, nil
}

// asTexts returns the members of an object as text. It leaves out members that are null, objects or arrays.
func asTexts(fields map[string]any) map[string]string {
	texts := map[string]string{}
	for name, v := range fields {
		switch v.(type) {
		case nil, map[string]any, []any:
		default:
			texts[name] = fmt.Sprint(v)
		}
	}
	return texts
}

// listedBy runs a command, without a shell, and parses the JSON objects that it prints.
func listedBy(ctx context.Context, argv []string) ([]config.Row, error) {
	out, err := runProgram(ctx, argv, MaxListBytes)
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", argv[0], err)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, fmt.Errorf("command %s: printed nothing; want JSON objects, or [] for none", argv[0])
	}
	rows, err := jsonRows(out)
	if err != nil {
		return nil, fmt.Errorf("command %s: %w", argv[0], err)
	}
	return rows, nil
}

// runProgram runs a command without a shell and without input, and returns what it prints on stdout. It fails if the
// output is more than limit bytes. The program's stderr goes to penstock's stderr. If ctx ends, the command is killed.
// On Unix, its child processes are killed too. // Invariant 15
func runProgram(ctx context.Context, argv []string, limit int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out := &bounded{limit: limit}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, os.Stderr, commandGrace
	together(cmd)
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return nil, context.Cause(ctx)
	case ctx.Err() != nil:
		return nil, errors.New("did not finish within the timeout")
	case out.over:
		return nil, fmt.Errorf("printed more than %d bytes", limit)
	}
	return out.Bytes(), err
}

// commandGrace is how long runProgram waits for the output of a killed command to be closed.
const commandGrace = 2e9

// bounded is a buffer of at most limit bytes.
type bounded struct {
	bytes.Buffer
	limit int
	over  bool
}

// Write appends p. Once p would exceed the limit, this and all later calls fail.
func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || b.Len()+len(p) > b.limit; b.over {
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}

// listedByQuery reads a list with a query to a destination, or to another Postgres database.
func (o *Opener) listedByQuery(ctx context.Context, l config.Listing) (rows []config.Row, err error) {
	d := l.Destination
	if l.URL != "" {
		d = config.Destination{Name: "sources", Scheme: "postgres", URL: l.URL}
	}
	p, err := o.Kinds.Of(&config.Config{}, d)
	if err != nil {
		return nil, err
	}
	if o.Connections.Most > 0 {
		d.Connections = fewest
	}
	dest, err := p.Open(ctx, o, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dest.Close()) }()
	r := &Reader{Destination: dest, Name: d.Name, Config: d, Kind: p, Conf: &config.Config{}}
	err = r.Ask(ctx, func(q load.Querier) error {
		return q.Query(ctx, l.Query, func(b arrow.RecordBatch) error {
			for i := range int(b.NumRows()) {
				row := config.Row{Fields: map[string]string{}}
				for c, f := range b.Schema().Fields() {
					if !b.Column(c).IsNull(i) {
						row.Fields[f.Name] = strings.Clone(b.Column(c).ValueStr(i)) // the row outlives the batch
					}
				}
				if rows = append(rows, row); len(rows) > maxListed {
					return fmt.Errorf("more than %d rows", maxListed)
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("query: %s", withoutValues(err.Error(), l.Query))
	}
	return rows, nil
}
