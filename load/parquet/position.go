package parquet

import (
	"context"
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

// position stores the cursor of a stream if its last commits have changed only the cursor. It is a file beside the link
// to the current generation, and is valid only for the generation that it names. So no reader ever sees the cursor
// together with rows of another generation. Invariant 2
type position struct {
	Of     generation `json:"of"`
	Moves  int64      `json:"moves"`
	Cursor string     `json:"cursor"`
	Run    string     `json:"run"`
	At     time.Time  `json:"at"`
}

func (s *dirStore) moved(m *manifest) (*manifest, error) {
	name := filepath.Join(s.root, positionName)
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
	out.Cursor, out.Run, out.Moves, out.MovedAt = p.Cursor, p.Run, p.Moves, p.At
	return &out, nil
}

// move stores a cursor. The caller must have held the lock since it called checkFence. // Invariants 2, 13
func (d *dirGeneration) move(_ context.Context, m *manifest) error {
	p := position{Of: generation{Sequence: m.Sequence, At: m.At}, Moves: m.Moves, Cursor: m.Cursor, Run: m.Run, At: m.MovedAt}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := d.store.dir.step("position"); err != nil {
		return err
	}
	fresh := filepath.Join(d.store.root, tmpPrefix+randomName())
	if err := d.store.dir.disk.Write(fresh, append(text, '\n')); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := d.store.dir.step("publish"); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	if err := os.Rename(fresh, filepath.Join(d.store.root, positionName)); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	return d.store.dir.disk.FlushDir(d.store.root)
}

// scanState calls visit with the present row of [load.State]. It is used if the cursor has changed since the generation
// was made, because the generation's file has the old row.
func (m *manifest) scanState(columns []string, visit func(arrow.RecordBatch) error) error {
	row := []any{m.Pipeline, m.Stream, m.Cursor, m.Sequence, m.MovedAt}
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
	return visit(out)
}
