package loadtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// surveyed has the results of a survey for one stream, and the stream's cursor when the survey was made.
type surveyed struct {
	load.StreamSurvey
	at position
}

// Survey implements [load.Surveyor].
func (m *Memory) Survey(ctx context.Context, streams []load.Surveyed, own []load.SurveyedOwn) error {
	if err := m.acquire(ctx); err != nil {
		return err
	}
	defer func() { <-m.busy }()
	for _, s := range streams {
		m.mu.Lock()
		at := m.states[s.Key]
		m.mu.Unlock()
		if at.sequence == 0 {
			continue
		}
		found := load.StreamSurvey{Cursor: at.cursor}
		var err error
		if found.Tables, err = m.Tables(ctx, s.Table); err != nil {
			return err
		}
		if found.State, err = m.StreamState(ctx, s.Key, s.Table); err != nil {
			return err
		}
		m.mu.Lock()
		err = m.digest(&found, s)
		m.surveyed[s.Key] = surveyed{found, at}
		m.mu.Unlock()
		if err != nil {
			return err
		}
	}
	for _, o := range own {
		if err := m.surveyOwn(ctx, streams[0].Key, o); err != nil {
			return err
		}
	}
	return nil
}

// surveyOwn reads rows of one of penstock's own tables; see [load.SurveyedOwn].
func (m *Memory) surveyOwn(_ context.Context, k state.Key, o load.SurveyedOwn) error {
	m.mu.Lock()
	t := m.tables[o.Table]
	if t == nil {
		m.mu.Unlock()
		return nil
	}
	rows, newest := slices.DeleteFunc(slices.Clone(t.rows), func(r Row) bool {
		return r["pipeline"] != k.Pipeline || r[schemas.ColSource] != k.Source || o.Table == load.Rejects.Name && r["resolved_at"] != ""
	}), map[string]string{}
	if o.Table == load.Certificates.Name {
		for _, r := range rows {
			newest[r["stream"]] = max(newest[r["stream"]], r["run"])
		}
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r["run"] != newest[r["stream"]] })
	}
	columns, err := load.Select(t.Columns, o.Columns)
	m.mu.Unlock()
	if err != nil || len(rows) == 0 {
		return err
	}
	b, err := batchOf(columns, rows)
	if err != nil {
		return err
	}
	defer b.Release()
	return o.Visit(b)
}

// digest computes the digest of a table's current rows, and reads the requested columns. It stores both in the
// parameter `found`. The caller holds m.mu.
func (m *Memory) digest(found *load.StreamSurvey, s load.Surveyed) error {
	t := m.tables[s.Table]
	if t == nil || t.Mode == schemas.Append || !load.Digestible(t.Table) {
		return nil
	}
	for _, other := range found.Tables {
		if m.tables[other.Name].asMade() != nil {
			return nil
		}
	}
	columns, err := load.Select(t.Columns, append(slices.Clone(t.Key), schemas.ColHash))
	if err != nil {
		return err
	}
	current := slices.DeleteFunc(slices.Clone(t.rows), func(r Row) bool { return !t.isCurrent(r) })
	b, err := batchOf(columns, current)
	if err != nil {
		return err
	}
	defer b.Release()
	var d load.RowDigest
	if d.Add(t.Table, b) != nil {
		return nil
	}
	found.Rows, found.Digest = d.Rows(), d.Sum()
	found.Forgotten = slices.ContainsFunc(current, func(r Row) bool { return r[schemas.ColHash] == "" })
	if columns, ok := load.CurrentColumns(t.Table, s.Columns); ok && len(s.Columns) > 0 {
		found.Current, err = batchOf(columns, current)
	}
	return err
}

// SurveyOf implements [load.Surveyor].
func (m *Memory) SurveyOf(k state.Key) (load.StreamSurvey, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.surveyed[k]
	return s.StreamSurvey, ok && s.at == m.states[k]
}

// Settle implements [load.Surveyor]. Each settlement is a separate transaction.
func (m *Memory) Settle(ctx context.Context, all []load.Settlement) []error {
	errs := make([]error, len(all))
	for i, s := range all {
		if errs[i] = m.settle(ctx, s); errs[i] != nil {
			errs[i] = fmt.Errorf("settle %s: %w", s.Key.Stream, errs[i])
		}
	}
	return errs
}

func (m *Memory) settle(ctx context.Context, s load.Settlement) error {
	found, ok := m.SurveyOf(s.Key)
	if !ok || found.Cursor != s.Expected {
		return state.ErrMoved
	}
	x, err := m.Begin(ctx, s.Key, s.Expected, s.Pass)
	if err != nil {
		return err
	}
	defer func() { _ = x.Rollback() }()
	for _, r := range s.Rows {
		if err := x.Write(ctx, r.Table, r.Batch); err != nil {
			return err
		}
	}
	if err := x.Commit(ctx, s.Next); err != nil {
		return err
	}
	found.Cursor, found.Settled = s.Next, true
	m.mu.Lock()
	defer m.mu.Unlock()
	m.surveyed[s.Key] = surveyed{found, m.states[s.Key]}
	return nil
}
