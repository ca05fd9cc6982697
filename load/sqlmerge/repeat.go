package sqlmerge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// ErrLate is returned by [Session].Alter if the table can no longer be altered, because the transaction has used its
// rows. A transaction of [Store.BeginRepeatable] is then repeated.
var ErrLate = errors.New("the table must be altered before its rows are used")

// repeatable is a transaction for a database that cannot alter a table whose rows the transaction has used. If rows of
// a later Apply need that, the transaction is rolled back. A new one first gets empty batches with the shapes of all
// rows, so that its first Apply alters all tables. Then it gets all rows again.
//
// Rows of an earlier Apply are kept in a temporary file. // Invariant 6
type repeatable struct {
	load.Tx
	begin  func(context.Context) (load.Tx, error)
	steps  []step
	shapes map[string]*load.Staged // by table
	order  []string                // of the tables in shapes
	file   *os.File
	size   int64
}

// step is a call of Write, or of Apply if it has no schema.
type step struct {
	table  schemas.Table
	schema *arrow.Schema
	batch  arrow.RecordBatch // nil if it is in the file
	at     int64             // its place in the file
	sweep  load.Sweep
}

// BeginRepeatable opens a transaction that is repeated if Alter returns [ErrLate].
func (d *Store) BeginRepeatable(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	x := &repeatable{shapes: map[string]*load.Staged{}}
	x.begin = func(ctx context.Context) (load.Tx, error) { return d.Begin(ctx, k, from, p) }
	var err error
	x.Tx, err = x.begin(ctx)
	return x, err
}

// Write implements [load.Tx].
func (x *repeatable) Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if err := x.spill(); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	if err := x.Tx.Write(ctx, t, b); err != nil {
		return err
	}
	shape := x.shapes[t.Name]
	if shape == nil {
		shape = &load.Staged{Table: schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode}}
		x.shapes[t.Name] = shape
		x.order = append(x.order, t.Name)
	}
	if shape.Columns != b.Schema() {
		err := shape.Add(b)
		shape.Release()
		if err != nil {
			return err
		}
	}
	b.Retain()
	x.steps = append(x.steps, step{table: t, schema: b.Schema(), batch: b})
	return nil
}

// Apply implements [load.Tx].
func (x *repeatable) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	out, err := x.Tx.Apply(ctx, s)
	for _, b := range s.Keys {
		b.Retain()
	}
	x.steps = append(x.steps, step{sweep: s})
	if errors.Is(err, ErrLate) {
		return x.repeat(ctx)
	}
	return out, err
}

// repeat rolls the transaction back and runs all of its steps again. It returns the outcome of the last step.
func (x *repeatable) repeat(ctx context.Context) (out load.Outcome, err error) {
	if err := x.Tx.Rollback(); err != nil {
		return out, err
	}
	if x.Tx, err = x.begin(ctx); err != nil {
		return out, err
	}
	for _, name := range x.order {
		t := x.shapes[name].Table
		b := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
		empty := b.NewRecordBatch()
		b.Release()
		err := x.Tx.Write(ctx, t, empty)
		empty.Release()
		if err != nil {
			return out, err
		}
	}
	if _, err = x.Tx.Apply(ctx, load.Sweep{}); err != nil {
		return out, err
	}
	for _, s := range x.steps {
		if s.schema == nil {
			for _, keys := range out.Keys {
				keys.Release()
			}
			out, err = x.Tx.Apply(ctx, s.sweep)
		} else {
			err = x.writeAgain(ctx, s)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func (x *repeatable) writeAgain(ctx context.Context, s step) error {
	if s.batch != nil {
		return x.Tx.Write(ctx, s.table, s.batch)
	}
	r, err := ipc.NewReader(io.NewSectionReader(x.file, s.at, x.size-s.at))
	if err != nil {
		return err
	}
	defer r.Release()
	if !r.Next() {
		return errors.Join(io.ErrUnexpectedEOF, r.Err())
	}
	stored := r.RecordBatch()
	b := array.NewRecordBatch(s.schema, stored.Columns(), stored.NumRows())
	defer b.Release()
	return x.Tx.Write(ctx, s.table, b)
}

// spill moves the rows of earlier calls of Apply to the file.
func (x *repeatable) spill() error {
	if len(x.steps) == 0 || x.steps[len(x.steps)-1].schema != nil {
		return nil
	}
	for i := range x.steps {
		s := &x.steps[i]
		if s.batch == nil {
			continue
		}
		if x.file == nil {
			f, err := os.CreateTemp("", "penstock-repeat-*")
			if err != nil {
				return err
			}
			x.file = f
			_ = os.Remove(f.Name()) // where possible, so that a crash leaves nothing
		}
		var buf bytes.Buffer
		w := ipc.NewWriter(&buf, ipc.WithSchema(s.schema))
		if err := errors.Join(w.Write(s.batch), w.Close()); err != nil {
			return err
		}
		n, err := x.file.WriteAt(buf.Bytes(), x.size)
		if err != nil {
			return err
		}
		s.at = x.size
		x.size += int64(n)
		s.batch.Release()
		s.batch = nil
	}
	return nil
}

// Commit implements [load.Tx].
func (x *repeatable) Commit(ctx context.Context, next state.Cursor) error {
	defer x.forget()
	if n := len(x.steps); n > 0 && x.steps[n-1].schema != nil {
		if _, err := x.Apply(ctx, load.Sweep{}); err != nil {
			return errors.Join(fmt.Errorf("commit: %w", err), x.Tx.Rollback())
		}
	}
	return x.Tx.Commit(ctx, next)
}

// Rollback implements [load.Tx].
func (x *repeatable) Rollback() error {
	x.forget()
	return x.Tx.Rollback()
}

func (x *repeatable) forget() {
	for _, s := range x.steps {
		if s.batch != nil {
			s.batch.Release()
		}
		for _, b := range s.sweep.Keys {
			b.Release()
		}
	}
	x.steps = nil
	if x.file != nil {
		_ = x.file.Close()
		_ = os.Remove(x.file.Name())
		x.file = nil
	}
}
