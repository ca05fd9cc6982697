package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Sharer is implemented by destinations whose tables several sources can share. In shared tables, [schemas.ColSource]
// names the source of each row and is the first column of every key. Penstock's own tables are shared too. The only
// exception is [Changes], whose rows belong to all sources.
type Sharer interface {
	// Share returns the destination restricted to the cursors and rows of the named source. Its tables have the keys and
	// columns of tables that are not shared. Share is cheap. Closing the result closes nothing.
	Share(source string) Destination

	// Forget drops what this process remembers about a pipeline's passes over a source. None of these passes may have an
	// open transaction. Without Forget, memory would grow with the number of sources. // Invariant 6
	Forget(pipeline, source string)
}

// Share returns d restricted to the rows of the named source, or d itself if source is "". It returns an error if
// sources cannot share d's tables.
func Share(d Destination, source string) (Destination, error) {
	if source == "" {
		return d, nil
	}
	s, ok := d.(Sharer)
	if !ok {
		return nil, errors.New("several sources cannot share this destination's tables; put {source} in its url or schema, so that each source has its own tables")
	}
	return s.Share(source), nil
}

// SourcePart is a destination restricted to the rows of one source. [Sharer].Share can return a SourcePart if the other
// methods of the Sharer use the source in the [state.Key] that they get.
type SourcePart struct {
	Destination
	Source string

	// ScanOf is Scan restricted to the rows of one source.
	ScanOf func(ctx context.Context, source, table string, columns []string, visit func(arrow.RecordBatch) error) error
}

// Close does nothing: the destination stays open for others.
func (p SourcePart) Close() error { return nil }

// Tables implements [Destination].
func (p SourcePart) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	tables, err := p.Destination.Tables(ctx, name)
	for i := range tables {
		tables[i].Columns = unshared(tables[i].Columns)
	}
	return tables, err
}

// Cursor implements [Destination].
func (p SourcePart) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	k.Source = p.Source
	return p.Destination.Cursor(ctx, k)
}

// StreamState implements [Destination].
func (p SourcePart) StreamState(ctx context.Context, k state.Key, table string) (StreamState, error) {
	k.Source = p.Source
	return p.Destination.StreamState(ctx, k, table)
}

// Begin implements [Destination].
func (p SourcePart) Begin(ctx context.Context, k state.Key, from state.Cursor, pass Pass) (Tx, error) {
	k.Source = p.Source
	return p.Destination.Begin(ctx, k, from, pass)
}

// Scan implements [Destination].
func (p SourcePart) Scan(ctx context.Context, table string, columns []string, visit func(arrow.RecordBatch) error) error {
	return p.ScanOf(ctx, p.Source, table, columns, visit)
}

// Survey implements [Surveyor] if the destination implements it.
func (p SourcePart) Survey(ctx context.Context, streams []Surveyed, own []SurveyedOwn) error {
	by, able := p.Destination.(Surveyor)
	if !able {
		return fmt.Errorf("survey: %w", errors.ErrUnsupported)
	}
	streams = slices.Clone(streams)
	for i := range streams {
		streams[i].Key.Source = p.Source
	}
	return by.Survey(ctx, streams, own)
}

// SurveyOf implements [Surveyor].
func (p SourcePart) SurveyOf(k state.Key) (StreamSurvey, bool) {
	by, able := p.Destination.(Surveyor)
	if !able {
		return StreamSurvey{}, false
	}
	k.Source = p.Source
	s, ok := by.SurveyOf(k)
	s.Tables = slices.Clone(s.Tables)
	for i := range s.Tables {
		s.Tables[i].Columns = unshared(s.Tables[i].Columns)
	}
	return s, ok
}

// CheckRows implements [Checker] if the destination implements it.
func (p SourcePart) CheckRows(ctx context.Context, k state.Key, table string, c schemas.Check, now time.Time) (CheckOutcome, bool, error) {
	by, able := p.Destination.(Checker)
	if !able {
		return CheckOutcome{}, false, fmt.Errorf("check %s: %w", c.Name, errors.ErrUnsupported)
	}
	k.Source = p.Source
	return by.CheckRows(ctx, k, table, c, now)
}

// Settle implements [Surveyor].
func (p SourcePart) Settle(ctx context.Context, all []Settlement) []error {
	all = slices.Clone(all)
	for i := range all {
		all[i].Key.Source = p.Source
	}
	return p.Destination.(Surveyor).Settle(ctx, all)
}

// Shared reports whether a table with these columns is shared by several sources.
func Shared(s *arrow.Schema) bool { return s != nil && s.HasField(schemas.ColSource) }

// FullKey returns the names of the columns that identify a row among all rows of the table: the table's key, preceded
// by the source if the table is shared. For a table without a key, FullKey returns no names.
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

// Unshared returns the names of the columns of a shared table, without the source column.
func Unshared(s *arrow.Schema) []string {
	return slices.DeleteFunc(Names(s), func(name string) bool { return name == schemas.ColSource })
}

// ShareTable returns t with a source column. If t already has one, or if t is [Changes], it returns t itself.
func ShareTable(t schemas.Table) schemas.Table {
	if Shared(t.Columns) || t.Name == Changes.Name {
		return t
	}
	md := t.Columns.Metadata()
	t.Columns = arrow.NewSchema(slices.Insert(t.Columns.Fields(), 0, text(schemas.ColSource)), &md)
	return t
}

// WithSource adds a column to b that names the source of the rows. The rows belong to the table t. If source is "", or
// t is [Changes], WithSource returns b itself. The caller releases the result, and still has to release b.
func WithSource(t schemas.Table, b arrow.RecordBatch, source string) arrow.RecordBatch {
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

// ErrUnshared reports that one schema, folder or file would hold both shared tables and tables of a single source.
var ErrUnshared = errors.New("a schema, folder or file cannot hold both shared tables and tables of one source")

// CheckSharing returns an error if existing tables are shared and source is "", or if they are not shared and source is
// set. The parameter sharedState says whether penstock's table of cursors is shared. CheckSharing must not be called
// before that table exists.
func CheckSharing(sharedState bool, source string) error {
	switch {
	case sharedState == (source != ""):
		return nil
	case sharedState:
		return fmt.Errorf("%w: the existing tables are shared, and this run has only one source; give the pipeline another schema, folder or file", ErrUnshared)
	}
	return fmt.Errorf("%w: the existing tables belong to one source; put {source} in the url or schema of the destination, or use another schema, folder or file", ErrUnshared)
}
