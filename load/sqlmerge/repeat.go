package sqlmerge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"

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

var errOver = errors.New("transaction is over")

// Repetition says how a transaction is begun, and when it is repeated.
type Repetition struct {
	// Open begins the database's transaction. If it is nil, [Backend].Write is called instead.
	Open func(context.Context) (Session, error)

	// Retry calls f, and calls it again after a transient error, such as a lost connection. If Retry is nil, f is
	// called once.
	Retry func(ctx context.Context, f func() error) error
}

// repeatable is a transaction that can be repeated: each attempt is another [tx]. An attempt that fails is rolled back,
// and the next attempt gets the same rows.
//
// Some databases cannot alter a table whose rows the transaction has used. If the rows of a later Apply need another
// column or a wider type, the attempt fails. The next attempt first gets empty batches with the columns of all rows. So
// its first Apply alters all tables.
//
// If the rows take more than maxHeld bytes, the rows of earlier calls of Apply are kept in a temporary file.
// Invariant 6
type repeatable struct {
	how    Repetition
	now    *tx // this attempt
	steps  []step
	done   int            // number of steps that this attempt has done
	late   bool           // an attempt has failed with ErrLate
	failed error          // why the transaction cannot commit: an Apply has failed, or the transaction is over
	shapes []*load.Staged // the columns of all tables, in the order of their first batch
	held   int64          // size of the batches in memory
	file   *os.File
	size   int64
}

const maxHeld = 48 << 20

// step is a call of Write or Apply. In a call of Apply, the schema is nil.
type step struct {
	table   schemas.Table
	schema  *arrow.Schema
	batch   arrow.RecordBatch // nil if the rows are in the file
	at      int64             // offset of the rows in the file
	sweep   load.Sweep
	outcome *load.Outcome // outcome of an Apply that has returned
}

// BeginRepeatable opens a transaction that is repeated if Alter returns [ErrLate], and after an error that r.Retry
// regards as transient.
func (d *Store) BeginRepeatable(ctx context.Context, k state.Key, from state.Cursor, p load.Pass, r Repetition) (load.Tx, error) {
	if r.Open == nil {
		r.Open = d.b.Write
	}
	if r.Retry == nil {
		r.Retry = func(_ context.Context, f func() error) error { return f() }
	}
	first, err := d.begin(ctx, k, from, p, r.Open)
	if err != nil {
		return nil, err
	}
	return &repeatable{how: r, now: first}, nil
}

// Write implements [load.Tx].
func (x *repeatable) Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if x.failed != nil {
		return x.failed
	}
	if err := x.spill(); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	if err := x.now.Write(ctx, t, b); err != nil {
		return err
	}
	i := slices.IndexFunc(x.shapes, func(s *load.Staged) bool { return s.Name == t.Name })
	if i < 0 {
		i = len(x.shapes)
		x.shapes = append(x.shapes, &load.Staged{Table: schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode}})
	}
	if shape := x.shapes[i]; shape.Columns != b.Schema() {
		err := shape.Add(b)
		shape.Release()
		if err != nil {
			return err
		}
	}
	b.Retain()
	for _, c := range b.Columns() {
		x.held += int64(c.Data().SizeInBytes())
	}
	x.steps = append(x.steps, step{table: t, schema: b.Schema(), batch: b})
	x.done++
	return nil
}

// Apply implements [load.Tx].
func (x *repeatable) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	if x.failed != nil {
		return load.Outcome{}, x.failed
	}
	for _, b := range s.Keys {
		b.Retain()
	}
	x.steps = append(x.steps, step{sweep: s})
	if err := x.try(ctx, func() error { return nil }); err != nil {
		x.failed = err
		return load.Outcome{}, err
	}
	return *x.steps[len(x.steps)-1].outcome, nil
}

// try does the steps that this attempt has not done, and calls f. If that fails, another attempt follows.
func (x *repeatable) try(ctx context.Context, f func() error) error {
	return x.how.Retry(ctx, func() error {
		err := x.run(ctx, f)
		if errors.Is(err, ErrLate) {
			x.late = true
			err = x.run(ctx, f)
		}
		return err
	})
}

func (x *repeatable) run(ctx context.Context, f func() error) error {
	err := ctx.Err()
	if err == nil {
		err = x.catchUp(ctx)
	}
	if err == nil {
		err = f()
	}
	if err == nil {
		return nil
	}
	_ = x.now.Rollback() // the rollback fails if the connection is lost
	x.now, x.done = x.now.again(), 0
	return err
}

// catchUp does the steps that this attempt has not done.
func (x *repeatable) catchUp(ctx context.Context) error {
	if x.done == 0 && x.late {
		if err := x.writeShapes(ctx); err != nil {
			return err
		}
	}
	for ; x.done < len(x.steps); x.done++ {
		s := &x.steps[x.done]
		if s.schema != nil {
			if err := x.writeAgain(ctx, s); err != nil {
				return err
			}
			continue
		}
		out, err := x.now.Apply(ctx, s.sweep)
		if err != nil {
			return err
		}
		if s.outcome == nil {
			s.outcome = &out
			continue
		}
		for _, keys := range out.Keys {
			keys.Release()
		}
		if !x.late && !same(*s.outcome, out) {
			return errors.New("the transaction was repeated, and its outcome differed from the first attempt: another session has changed the table")
		}
	}
	return nil
}

// The function same() reports whether two outcomes are equal. It ignores the keys that they list.
func same(a, b load.Outcome) bool {
	a.Keys, b.Keys = nil, nil
	return reflect.DeepEqual(a, b)
}

// writeShapes makes the first Apply of this attempt alter all tables.
func (x *repeatable) writeShapes(ctx context.Context) error {
	for _, shape := range x.shapes {
		t := shape.Table
		b := array.NewRecordBuilder(memory.DefaultAllocator, t.Columns)
		empty := b.NewRecordBatch()
		b.Release()
		err := x.now.Write(ctx, t, empty)
		empty.Release()
		if err != nil {
			return err
		}
	}
	_, err := x.now.Apply(ctx, load.Sweep{})
	return err
}

func (x *repeatable) writeAgain(ctx context.Context, s *step) error {
	if s.batch != nil {
		return x.now.Write(ctx, s.table, s.batch)
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
	return x.now.Write(ctx, s.table, b)
}

// spill moves the rows of earlier calls of Apply to the file.
func (x *repeatable) spill() error {
	if x.held <= maxHeld || x.steps[len(x.steps)-1].schema != nil {
		return nil
	}
	x.held = 0
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
			_ = os.Remove(f.Name()) // the open file stays usable, and a crash leaves no file behind
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
	defer x.end()
	if n := len(x.steps); n > 0 && x.steps[n-1].schema != nil {
		if _, err := x.Apply(ctx, load.Sweep{}); err != nil {
			return errors.Join(fmt.Errorf("commit: %w", err), x.now.Rollback())
		}
	}
	if x.failed != nil {
		return errors.Join(x.failed, x.now.Rollback())
	}
	return x.try(ctx, func() error { return x.now.Commit(ctx, next) })
}

// Rollback implements [load.Tx].
func (x *repeatable) Rollback() error {
	x.end()
	return x.now.Rollback()
}

// The method end() releases the rows.
func (x *repeatable) end() {
	x.failed = errOver
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
