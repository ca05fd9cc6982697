package parquet

import (
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
)

// trimRule says which rows of an internal table [Lake.Trim] removes: rows with a time before `before`, for which
// matches() returns true.
type trimRule struct {
	table   string
	before  time.Time
	count   *int64
	columns []string                  // columns with texts
	matches func(texts []string) bool // gets the values of these columns; null: ""
}

// rules returns the rules of t. They count the removed rows in n.
func (t *trim) rules(n *load.Trimmed) (out []trimRule) {
	ours := func(texts []string) bool { return texts[0] == t.Pipeline }
	if t.whole {
		out = append(out,
			trimRule{load.Certificates.Name, t.Before, &n.Certificates, []string{"pipeline", "run"}, func(texts []string) bool {
				return ours(texts) && !t.newest[texts[1]]
			}},
			trimRule{load.Runs.Name, t.Before, &n.Runs, []string{"pipeline", "run"}, func(texts []string) bool {
				return ours(texts) && !t.newest[texts[1]]
			}},
			trimRule{load.Rejects.Name, t.Before, &n.Rejects, []string{"pipeline"}, ours},
			trimRule{load.RowChanges.Name, t.Before, &n.RowChanges, []string{"pipeline"}, ours},
			trimRule{load.Checks.Name, t.Before, &n.Checks, []string{"pipeline"}, ours},
		)
	}
	if !t.EventsBefore.IsZero() {
		out = append(out, trimRule{load.Events.Name, t.EventsBefore, &n.Events, []string{"source"}, func(texts []string) bool {
			return texts[0] == t.Source
		}})
	}
	return append(out, trimRule{load.Changes.Name, t.Before, &n.Notes, []string{"table"}, func(texts []string) bool {
		return slices.ContainsFunc(load.Ancestors(texts[0]), func(name string) bool { return slices.Contains(t.Tables, name) })
	}})
}

// The method due() reports whether the segment has rows with a time before r.before.
func (r trimRule) due(s *segment) bool {
	oldest := s.root().Oldest
	return oldest != nil && *oldest < r.before.UnixMicro()
}

// edits returns an edit for each row of f that is removed.
func (r trimRule) edits(ctx context.Context, t *table, f *file) (out []edit, err error) {
	columns := append(slices.Clone(r.columns), ageColumns(t.Name)...)
	age := newAge(t.Name, func(column string) int { return slices.Index(columns, column) })
	before := r.before.UnixMicro()
	texts := make([]string, len(r.columns))
	err = f.read(ctx, t, columns, func(first int64, c []arrow.Array, rows int) error {
		for i := range rows {
			at, ok := age.of(c, i)
			for j := range texts {
				texts[j] = textAt(c[j], i)
			}
			if ok && at < before && r.matches(texts) {
				out = append(out, edit{row: uint32(first) + uint32(i), kind: remove, by: -1})
			}
		}
		return nil
	})
	return out, err
}

// ageColumns returns the columns that say how old the rows of an internal table are. It returns none if Trim removes no
// rows of the table.
func ageColumns(table string) []string {
	switch table {
	case load.Certificates.Name, load.RowChanges.Name, load.Checks.Name:
		return []string{"at"}
	case load.Runs.Name:
		return []string{"ended_at", "started_at", "status"}
	case load.Rejects.Name:
		return []string{"resolved_at"}
	case load.Events.Name:
		return []string{"received_at"}
	case load.Changes.Name:
		return []string{"at", "action"}
	}
	return nil
}

// age finds the times of rows that may be removed when they are old enough.
type age struct {
	times []int // column indexes; the first time that is not null counts
	word  int   // index of a text column; -1: none
	stays func(word string) bool
}

// newAge returns nil if Trim removes no rows of the table, or if the table has lost a column that Trim needs. The
// function place returns the index of a column.
func newAge(table string, place func(column string) int) *age {
	columns := ageColumns(table)
	if columns == nil {
		return nil
	}
	a := &age{word: -1}
	for _, c := range columns {
		at := place(c)
		if at < 0 {
			return nil
		}
		switch c {
		case "status":
			a.word, a.stays = at, func(status string) bool { return status == "" || status == "running" }
		case "action":
			a.word, a.stays = at, func(action string) bool { return action != load.ActionDrift }
		default:
			a.times = append(a.times, at)
		}
	}
	return a
}

// The method of() returns the time of a row, in microseconds. The result ok is false if the row stays, however old it
// is.
func (a *age) of(columns []arrow.Array, row int) (at int64, ok bool) {
	if a.word >= 0 && a.stays(textAt(columns[a.word], row)) {
		return 0, false
	}
	for _, c := range a.times {
		if columns[c].IsValid(row) {
			return instantAt(columns[c], row), true
		}
	}
	return 0, false
}

// textAt returns the text in a row of a column; "" if it is null. The text is valid as long as the column.
func textAt(a arrow.Array, row int) string {
	if s, ok := a.(*array.String); ok && s.IsValid(row) {
		return s.Value(row)
	}
	return ""
}
