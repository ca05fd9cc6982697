package load

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Sharer is implemented by destinations whose tables several sources can share.
// Such tables, penstock's own among them, tell whose row each is by
// [schemas.ColSource], which is the first column of every key; only that of the
// tables' shapes, [Changes], is everybody's.
type Sharer interface {
	// Share is the destination as the source called so sees it: its cursors,
	// its rows and no others. Keys and columns are those of a table that is not
	// shared. It costs nothing to make, and
	// closing it closes nothing.
	Share(source string) Destination

	// Forget gives up what this process remembers of the passes that a pipeline
	// has made over a source, once no transaction of theirs is open: of
	// thousands of sources, nothing stays. // Invariant 6
	Forget(pipeline, source string)
}

// Share is the destination as one of the sources sees it that share its tables;
// d itself for no name.
func Share(d Destination, source string) (Destination, error) {
	if source == "" {
		return d, nil
	}
	s, ok := d.(Sharer)
	if !ok {
		return nil, errors.New("several sources cannot share this destination's tables; give each a place of its own with {source}")
	}
	return s.Share(source), nil
}

// Part is a destination's rows of one source: what a [Sharer] hands out whose
// methods find the source in their [state.Key].
type Part struct {
	Destination
	Source string

	// ScanOf is Scan for the rows of one source.
	ScanOf func(ctx context.Context, source, table string, columns []string, each func(arrow.RecordBatch) error) error
}

// Close leaves the destination open, which others share.
func (p Part) Close() error { return nil }

// Tables implements [Destination].
func (p Part) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	tables, err := p.Destination.Tables(ctx, name)
	for i := range tables {
		tables[i].Columns = unshared(tables[i].Columns)
	}
	return tables, err
}

// Cursor implements [Destination].
func (p Part) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	k.Source = p.Source
	return p.Destination.Cursor(ctx, k)
}

// Standing implements [Destination].
func (p Part) Standing(ctx context.Context, k state.Key, table string) (StreamState, error) {
	k.Source = p.Source
	return p.Destination.Standing(ctx, k, table)
}

// Begin implements [Destination].
func (p Part) Begin(ctx context.Context, k state.Key, from state.Cursor, of Pass) (Tx, error) {
	k.Source = p.Source
	return p.Destination.Begin(ctx, k, from, of)
}

// Scan implements [Destination].
func (p Part) Scan(ctx context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error {
	return p.ScanOf(ctx, p.Source, table, columns, each)
}

// Shared reports whether a table with these columns is one that sources share.
func Shared(s *arrow.Schema) bool { return s != nil && s.HasField(schemas.ColSource) }

// FullKey is what tells all rows of a table apart: its key, and whose row it is
// where it is shared. It is none for a table without a key.
func FullKey(t schemas.Table) []string {
	if len(t.Key) == 0 || !Shared(t.Columns) {
		return t.Key
	}
	return append([]string{schemas.ColSource}, t.Key...)
}

func unshared(s *arrow.Schema) *arrow.Schema {
	if !Shared(s) {
		return s
	}
	md := s.Metadata()
	return arrow.NewSchema(slices.DeleteFunc(s.Fields(), func(f arrow.Field) bool { return f.Name == schemas.ColSource }), &md)
}

// Unshared are the columns of a table as one of the sources sees them that share
// it.
func Unshared(s *arrow.Schema) []string {
	return slices.DeleteFunc(Names(s), func(name string) bool { return name == schemas.ColSource })
}

// ShareTable is t as sources share it.
func ShareTable(t schemas.Table) schemas.Table {
	if Shared(t.Columns) || t.Name == Changes.Name {
		return t
	}
	md := t.Columns.Metadata()
	t.Columns = arrow.NewSchema(slices.Insert(t.Columns.Fields(), 0, text(schemas.ColSource)), &md)
	return t
}

// Stamp is b, rows of t, with the column that says whose they are; as it is for
// no source, and in the one table that is everybody's. The caller releases it; b
// is not consumed.
func Stamp(t schemas.Table, b arrow.RecordBatch, source string) arrow.RecordBatch {
	if source == "" || t.Name == Changes.Name {
		b.Retain()
		return b
	}
	sb := array.NewStringBuilder(memory.DefaultAllocator)
	defer sb.Release()
	sb.Reserve(int(b.NumRows()))
	sb.ReserveData(int(b.NumRows()) * len(source))
	for range b.NumRows() {
		sb.Append(source)
	}
	names := sb.NewArray()
	defer names.Release()
	md := b.Schema().Metadata()
	fields := slices.Insert(b.Schema().Fields(), 0, text(schemas.ColSource))
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), slices.Insert(slices.Clone(b.Columns()), 0, names), b.NumRows())
}

// ErrUnshared says that a place holds the tables of one source, and cannot hold
// those of several beside them, or the other way round.
var ErrUnshared = errors.New("it cannot hold tables of one source and tables that several share")

// Sharing refuses a source (none: "") to whose placement the tables at hand do
// not keep: those of penstock's own state, as they stand.
func Sharing(have bool, source string) error {
	switch {
	case have == (source != ""):
		return nil
	case have:
		return fmt.Errorf("%w: its tables are shared, and this run is of one source alone; give the pipeline another schema, folder or file", ErrUnshared)
	}
	return fmt.Errorf("%w: its tables are those of one source; give several a place each with {source}, or another schema, folder or file", ErrUnshared)
}
