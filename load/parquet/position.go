package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
)

// position is how far a stream has come since its current generation was made,
// by commits that found nothing to write: of such a commit the cursor is all
// there is. It lies in a file beside the link, and stands for that generation
// alone: with the next one it is void, and no cursor is ever seen beside rows
// that it was not committed with. // Invariant 2
type position struct {
	Of     generation `json:"of"`
	Moves  int64      `json:"moves"` // so many such commits were made
	Cursor string     `json:"cursor"`
	Run    string     `json:"run"`
	At     time.Time  `json:"at"`
}

// moved is the manifest with the cursor that its stream has come to since.
func (f *folder) moved(m *manifest) (*manifest, error) {
	name := filepath.Join(f.path, positionName)
	text, err := os.ReadFile(name)
	if gone(err) {
		return m, nil
	}
	var p position
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if p.Of.Sequence != m.Sequence || !p.Of.At.Equal(m.At) {
		return m, nil
	}
	out := *m
	out.Cursor, out.Run, out.moves, out.movedAt = p.Cursor, p.Run, p.Moves, p.At
	return &out, nil
}

// idle reports whether the transaction leaves everything but the cursor as it
// is.
func (x *tx) idle() (bool, error) {
	if x.base == nil || len(x.own) > 0 || x.log != nil && x.log.b != nil {
		return false, nil
	}
	before, err := x.base.content()
	if err != nil {
		return false, err
	}
	after, err := x.next.content()
	return bytes.Equal(before, after), err
}

// content is what the manifest says of tables and rows.
func (m *manifest) content() ([]byte, error) {
	return json.Marshal(manifest{Changed: m.Changed, Counter: m.Counter, Tables: m.Tables, Segments: m.Segments})
}

// move makes the cursor durable where there is nothing else to commit. The lock
// has been held since the fence was checked. // Invariants 2, 13
func (x *tx) move() error {
	p := position{
		Of: generation{Sequence: x.base.Sequence, At: x.base.At}, Moves: x.base.moves + 1,
		Cursor: x.next.Cursor, Run: x.next.Run, At: x.next.At,
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := x.lake.step("position"); err != nil {
		return err
	}
	fresh := filepath.Join(x.folder.path, tmpPrefix+randomName())
	if err := x.lake.disk.write(fresh, append(text, '\n')); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := x.lake.step("publish"); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, filepath.Join(x.folder.path, positionName)); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return x.lake.disk.flushDir(x.folder.path)
}

// scanState hands out the row of [load.State] of a stream that has moved since
// the row in its generation's files was written.
func (m *manifest) scanState(columns []string, each func(arrow.RecordBatch) error) error {
	row := []any{m.Pipeline, m.Stream, m.Cursor, m.Sequence, m.movedAt}
	schema, err := load.Select(load.State.Columns, columns)
	if err != nil {
		return err
	}
	b, err := load.Rows(load.State, row)
	if err != nil {
		return err
	}
	defer b.Release()
	picked := make([]arrow.Array, schema.NumFields())
	for i, f := range schema.Fields() {
		picked[i] = b.Column(b.Schema().FieldIndices(f.Name)[0])
	}
	out := array.NewRecordBatch(schema, picked, b.NumRows())
	defer out.Release()
	return each(out)
}
