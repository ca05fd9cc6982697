package pipeline

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// ownRows are the rows of one of penstock's own tables that a survey has read.
type ownRows struct {
	columns []string
	batches []arrow.RecordBatch
	rows    int64 // number of rows that were read; if it exceeds [load.MostOwnRows], they were not kept
}

// add adds the rows of a batch.
func (o *ownRows) add(b arrow.RecordBatch) error {
	if o.rows += b.NumRows(); o.rows > load.MostOwnRows {
		o.batches = nil
		return nil
	}
	b.Retain()
	o.batches = append(o.batches, b)
	return nil
}

// pastColumns are the columns of penstock's own tables that a forecast reads, by table.
var pastColumns = map[string][]string{
	load.Certificates.Name: {"pipeline", "stream", "run", "witnesses", "fetched", "pages", "requests"},
	load.Runs.Name:         {"pipeline", "run", "started_at", "ended_at", "status", "counts"},
}

// ownTables returns what the survey reads of penstock's own tables. If the parameter past is true, the survey also
// reads what a forecast needs: the rows about past runs.
func (s *surveyedDestination) ownTables(past bool) (all []load.SurveyedOwn) {
	s.own = map[string]*ownRows{
		load.Conventions.Name: {columns: conventionColumns}, load.Rejects.Name: {columns: reject.OpenColumns()}, load.Parents.Name: {columns: parents.StoredColumns()},
	}
	if past {
		for table, columns := range pastColumns {
			s.own[table] = &ownRows{columns: columns}
		}
	}
	for _, table := range slices.Sorted(maps.Keys(s.own)) {
		o := s.own[table]
		all = append(all, load.SurveyedOwn{Table: table, Columns: o.columns, Visit: o.add})
	}
	return all
}

// ownOf returns the rows of one of penstock's own tables; nil if they cannot be used.
func (s *surveyedDestination) ownOf(table string) *ownRows {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.own[table]
	if o == nil || o.rows > load.MostOwnRows || s.now().After(s.until) {
		return nil
	}
	return o
}

// stored returns the destination for a reader of penstock's own tables. The reader must need only the rows of the
// pipeline: see [load.SurveyedOwn].
func stored(d load.Destination) load.Destination {
	if s, ok := d.(*surveyedDestination); ok {
		return storedOf{s}
	}
	return d
}

// storedOf is a surveyed destination whose Scan takes rows of penstock's own tables from the survey.
type storedOf struct{ *surveyedDestination }

// Scan implements [load.Destination], but may leave out rows: see [load.SurveyedOwn]. If columns is nil, it may leave
// out columns.
func (s storedOf) Scan(ctx context.Context, table string, columns []string, visit func(arrow.RecordBatch) error) error {
	o := s.ownOf(table)
	if o == nil || columns != nil && !slices.Equal(columns, o.columns) {
		return s.Destination.Scan(ctx, table, columns, visit)
	}
	for _, b := range o.batches {
		if err := visit(b); err != nil {
			return err
		}
	}
	return nil
}

// forget makes later scans of the tables read the destination instead of the survey.
func (s *surveyedDestination) forget(tables ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range tables {
		delete(s.own, t)
	}
}

// parentPrints returns the fingerprints of a stream's stored parents. A parent without a fingerprint has the value nil.
// The parameter unsure is the id of a pass, and the parents that this pass has written are left out. The result is an
// empty map if the surveyed rows cannot be used, or if a settlement has moved the stream's cursor since the survey.
func (s *surveyedDestination) parentPrints(k state.Key, unsure string) map[string]any {
	prints := map[string]any{}
	o := s.ownOf(load.Parents.Name)
	if st, ok := s.surveyOf(k); o == nil || !ok || st.Settled {
		return prints
	}
	for _, b := range o.batches { // the columns are those of [parents.StoredColumns]
		pipelines, streams, tuples := b.Column(0).(*array.String), b.Column(1).(*array.String), b.Column(2).(*array.String)
		fingerprints, runs := b.Column(3).(*array.Int64), b.Column(4).(*array.String)
		for row := range int(b.NumRows()) {
			if pipelines.Value(row) == k.Pipeline && streams.Value(row) == k.Stream && runs.Value(row) != unsure {
				prints[strings.Clone(tuples.Value(row))] = printAt(fingerprints, row)
			}
		}
	}
	return prints
}

// printAt returns a fingerprint, or nil for null.
func printAt(all *array.Int64, row int) any {
	if all.IsNull(row) {
		return nil
	}
	return all.Value(row)
}
