package postgres

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// rejectValue records a value that could not be stored unchanged. // Invariant 11
func (m *merge) rejectValue(t *target, b arrow.RecordBatch, column string, row int, raw, reason string) {
	if !load.IsInternal(t.Name) {
		m.rejects = append(m.rejects, load.RejectOf(m.key, m.of, t.Table, b, column, row, raw, reason))
	}
}

// writeRejects writes the rejects of values that could not be stored unchanged.
func (m *merge) writeRejects() error {
	if len(m.rejects) == 0 {
		return nil
	}
	b, err := load.Rows(load.Rejects, m.rejects...)
	if err != nil {
		return err
	}
	defer b.Release()
	m.rejects = nil
	stamped := load.WithSource(load.Rejects, b, m.key.Source)
	defer stamped.Release()
	rejects := ownTable(load.Rejects, m.key.Source)
	t := &target{Table: rejects, staged: &load.Staged{Table: rejects}, types: map[string]string{}}
	for _, f := range rejects.Columns.Fields() {
		t.types[f.Name] = m.db.sqlType(schemas.TypeOf(f))
	}
	defer t.staged.Release()
	if err := t.staged.Add(stamped); err != nil {
		return err
	}
	return m.writeOwn(t)
}
