package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// surveyedDestination is a destination whose streams were surveyed when the run began. Its methods answer from the
// survey for at most surveyAge. After a transaction of this process has changed a stream, the methods read this stream
// from the destination.
type surveyedDestination struct {
	load.Destination
	by     load.Surveyor
	source string               // the source whose rows the destination shows, if several sources share its tables
	of     map[string]state.Key // streams by root table
	until  time.Time
	now    func() time.Time

	mu   sync.Mutex
	left map[state.Key]bool // streams that no longer use the survey

	own map[string]*ownRows // rows of penstock's own tables, by table
}

// surveyAge is the time for which a survey is used. A pass does not notice rows that other programs change after the
// survey. So a long run stops using its survey before the run ends.
const surveyAge = 5 * time.Minute

// surveyOf returns the survey of a stream, and false if it cannot be used any more.
func (s *surveyedDestination) surveyOf(k state.Key) (load.StreamSurvey, bool) {
	s.mu.Lock()
	left := s.left[k]
	s.mu.Unlock()
	if left || s.now().After(s.until) {
		return load.StreamSurvey{}, false
	}
	return s.by.SurveyOf(k)
}

// leave makes later calls for a stream read the destination instead of the survey.
func (s *surveyedDestination) leave(k state.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[k] = true
}

// survey() surveys the streams of the run, in each destination that can do so. If a survey fails, each stream is read
// in the usual way. A destination that another process has locked is left out of the run. The survey comes before the
// first commit of the run, because that commit uses the cursor that the survey reads.
func (r *run) survey(ctx context.Context) {
	if r.Options.DryRun || r.Options.Backfill != nil {
		return
	}
	r.Destinations = slices.Clone(r.Destinations)
	for i, d := range r.Destinations {
		by, able := part(d.Destination).(load.Surveyor)
		if !able {
			continue
		}
		one, _ := by.(load.SourcePart)
		s := &surveyedDestination{Destination: d.Destination, by: by, source: one.Source, of: map[string]state.Key{}, left: map[state.Key]bool{}, until: r.Now().Add(surveyAge), now: r.Now}
		streams := []load.Surveyed{{Key: r.Key(runStream)}}
		for _, of := range r.Streams {
			s.of[of.Table.Name] = r.Key(of.Name)
			streams = append(streams, load.Surveyed{Key: r.Key(of.Name), Table: of.Table.Name, Columns: parents.Columns(of)})
		}
		switch err := by.Survey(ctx, streams, s.ownTables(i == 0 && r.Forecast != nil)); {
		case err == nil:
			r.Destinations[i].Destination = s
		case errors.Is(err, state.ErrLocked): // the survey has waited for the other process long enough
			r.health.leaveOut(d.Name, fmt.Errorf("destination %s: %w", d.Name, err))
		}
	}
}

// part() returns the destination inside the wrappers of d, such as the survey and the handle of a pool. If several
// sources share the destination's tables, the result gives access only to the rows of one source.
func part(d load.Destination) load.Destination {
	switch in := d.(type) {
	case interface{ Part() load.Destination }:
		return in.Part()
	case interface{ Pooled() load.Destination }:
		return part(in.Pooled())
	}
	return d
}

// whole returns the destination inside all wrappers of d. It gives access to the rows of all sources.
func whole(d load.Destination) load.Destination {
	if in, ok := d.(interface{ Pooled() load.Destination }); ok {
		return whole(in.Pooled())
	}
	return d
}

// Pooled returns the destination without the survey.
func (s *surveyedDestination) Pooled() load.Destination { return s.Destination }

// Cursor implements [load.Destination].
func (s *surveyedDestination) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	if st, ok := s.surveyOf(k); ok {
		return st.Cursor, nil
	}
	return s.Destination.Cursor(ctx, k)
}

// Tables implements [load.Destination].
func (s *surveyedDestination) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	if k, ok := s.of[name]; ok {
		if st, ok := s.surveyOf(k); ok {
			return slices.Clone(st.Tables), nil
		}
	}
	return s.Destination.Tables(ctx, name)
}

// StreamState implements [load.Destination].
func (s *surveyedDestination) StreamState(ctx context.Context, k state.Key, table string) (load.StreamState, error) {
	if st, ok := s.surveyOf(k); ok && s.of[table] == k {
		return st.State, nil
	}
	return s.Destination.StreamState(ctx, k, table)
}

// unchanged returns a transaction that commits the end of a pass, but no rows of the stream. It does so only if the
// destination already has exactly the rows of the pass. Otherwise it returns nil, and the rows are compared one by one.
//
// The survey has read the digest of the table's rows and the stream's cursor in one snapshot. So if the cursor is still
// the same at the commit, no commit of the stream has changed the rows. If another program has changed or deleted rows
// before the survey, the table has another digest. The next run notices what was changed after the survey.
func (k *destinationRun) unchanged(p *pass, g *group) load.Tx {
	d, able := k.dest.Destination.(*surveyedDestination)
	if !able || g.end == nil || p.resumes || g.spill || len(g.left) > 0 || k.left.Missing() {
		return nil
	}
	st, ok := d.surveyOf(k.key)
	if !ok || st.Cursor != k.stored || d.of[p.stream.Table.Name] != k.key {
		return nil
	}
	of := p.run.passOf(p.stream, p.id, true)
	key := k.key
	key.Source = d.source
	if _, record, err := of.Claim.Owned(key, k.stored, st.State.Owner); err != nil || record {
		return nil
	}
	rows, ok := equalRows(p.stream.Table.Name, st, g)
	if !ok && (rows > 0 || p.sweep(g, false).Table != "") {
		return nil
	}
	return &bookkeeping{k: k, p: p, to: d, rows: rows, alive: rows, of: load.Settlement{Key: k.key, Expected: k.stored, Pass: of}}
}

// equalRows returns the number of rows of a group, and whether they are exactly the current rows of the tables.
func equalRows(root string, st load.StreamSurvey, g *group) (rows int64, equal bool) {
	var digest load.RowDigest
	equal = true
	for _, b := range g.batches {
		if b.Table.Name == root {
			rows += b.Batch.NumRows()
		}
		i := slices.IndexFunc(st.Tables, func(t schemas.Table) bool { return t.Name == b.Table.Name })
		if i < 0 || !equal {
			equal = equal && b.Batch.NumRows() == 0
			continue
		}
		arriving := schemas.Table{Name: b.Table.Name, Key: b.Table.Key, Mode: b.Table.Mode, Columns: b.Batch.Schema()}
		plan, err := load.Fit(st.Tables[i], arriving)
		equal = err == nil && plan.Empty() && (b.Table.Name != root || digest.Add(st.Tables[i], b.Batch) == nil)
	}
	there := slices.ContainsFunc(st.Tables, func(t schemas.Table) bool { return t.Name == root })
	switch {
	case !equal || len(st.State.Gone) > 0:
		return rows, false
	case !there:
		return rows, rows == 0
	}
	return rows, st.Digest != "" && !st.Forgotten && st.Rows == rows && st.Digest == digest.Sum()
}

// bookkeeping is the transaction at the end of a pass that has changed no rows of its stream.
type bookkeeping struct {
	k     *destinationRun
	p     *pass
	to    *surveyedDestination
	rows  int64 // rows of the stream that Apply has not counted yet
	alive int64
	of    load.Settlement
}

// Write implements [load.Tx]. It leaves out the rows of the stream.
func (x *bookkeeping) Write(_ context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if !load.IsInternal(t.Name) {
		return nil
	}
	b.Retain()
	x.of.Rows = append(x.of.Rows, load.OwnRows{Table: t, Batch: b})
	return nil
}

// Apply implements [load.Tx]. No row is missing.
func (x *bookkeeping) Apply(_ context.Context, s load.Sweep) (load.Outcome, error) {
	if s.Keys != nil {
		return load.Outcome{}, errors.New("rows would be deleted in a pass that has changed no rows")
	}
	out := load.Outcome{Unchanged: x.rows}
	x.rows = 0
	if s.Table != "" {
		out.Alive, out.Known = x.alive, true
	}
	return out, nil
}

// Commit implements [load.Tx].
func (x *bookkeeping) Commit(ctx context.Context, next state.Cursor) error {
	x.of.Next = next
	defer func() { _ = x.Rollback() }()
	if x.k.doubt == "" {
		if err := x.leaveOutParents(); err != nil {
			return err
		}
	}
	if x.k.finished {
		x.p.run.verdicts.set(x.k.dest.Name, x.p.stream.Name, *x.k.ended)
		x.p.slot.finish(x.k.dest.Name, len(x.p.streamRun.destinations))
	}
	err := x.p.slot.queue.settle(ctx, x.p.slot, x.to, x.of)
	if err != nil {
		x.to.leave(x.of.Key)
		if x.k.finished {
			x.p.slot.unfinish(x.k.dest.Name)
			x.p.run.verdicts.set(x.k.dest.Name, x.p.stream.Name, claim{verdict: Unproven}) // child streams may have begun // Invariant 12
		}
	}
	return err
}

// leaveOutParents leaves out the rows of parents that the destination already stores with the same fingerprint. The
// child rows of these parents are unchanged too.
func (x *bookkeeping) leaveOutParents() error {
	var prints map[string]any
	for i, r := range x.of.Rows {
		if r.Table.Name != load.Parents.Name {
			continue
		}
		if prints == nil {
			prints = x.to.parentPrints(x.of.Key, x.k.begun.ParentsUnsure)
		}
		same := map[int]bool{}
		tuples, fingerprints := r.Batch.Column(2).(*array.String), r.Batch.Column(3).(*array.Int64)
		for row := range int(r.Batch.NumRows()) {
			print, known := prints[tuples.Value(row)]
			same[row] = known && print == printAt(fingerprints, row)
		}
		rest, err := batch.WithoutRows(r.Batch, same)
		if err != nil {
			return err
		}
		r.Batch.Release()
		x.of.Rows[i].Batch = rest
	}
	x.of.Rows = slices.DeleteFunc(x.of.Rows, func(r load.OwnRows) bool {
		if r.Batch.NumRows() > 0 {
			return false
		}
		r.Batch.Release()
		return true
	})
	return nil
}

// Rollback implements [load.Tx].
func (x *bookkeeping) Rollback() error {
	for _, r := range x.of.Rows {
		r.Batch.Release()
	}
	x.of.Rows = nil
	return nil
}

// parentsOf is a surveyed destination for one child stream. Its Scan takes the stored parents and the rows of the
// stream from the survey.
type parentsOf struct {
	*surveyedDestination
	k    state.Key
	ends string // column that is null in current rows
}

// Scan implements [load.Destination], but may leave out rows of the stream that are not current.
func (p parentsOf) Scan(ctx context.Context, table string, columns []string, visit func(arrow.RecordBatch) error) error {
	st, same := p.surveyOf(p.k)
	switch {
	case same && p.of[table] == p.k:
		if b := p.current(st.Current, columns); b != nil {
			defer b.Release()
			if b.NumRows() == 0 {
				return nil
			}
			return visit(b)
		}
	case same && !st.Settled && table == load.Parents.Name:
		return storedOf{p.surveyedDestination}.Scan(ctx, table, columns, visit)
	}
	return p.Destination.Scan(ctx, table, columns, visit)
}

// current returns the named columns of the stream's current rows, or nil if the survey lacks one of these columns.
func (p parentsOf) current(rows arrow.RecordBatch, columns []string) arrow.RecordBatch {
	if rows == nil {
		return nil
	}
	fields, values := make([]arrow.Field, len(columns)), make([]arrow.Array, len(columns))
	for i, name := range columns {
		at := rows.Schema().FieldIndices(name)
		switch {
		case name == p.ends:
			values[i] = array.MakeArrayOfNull(memory.DefaultAllocator, schemas.Timestamp, int(rows.NumRows()))
			defer values[i].Release()
		case len(at) == 1:
			values[i] = rows.Column(at[0])
		default:
			return nil
		}
		fields[i] = arrow.Field{Name: name, Type: values[i].DataType(), Nullable: true}
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), values, rows.NumRows())
}
