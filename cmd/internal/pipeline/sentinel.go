package pipeline

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Profile is what a whole pass over a stream looked like: enough to see that the
// next one looks otherwise, and no value of any record. It grows with the number
// of columns, never with that of rows. // Invariant 6
type Profile struct {
	At     time.Time               `json:"at"`
	Page   int64                   `json:"page,omitempty"` // records on the fullest of several pages
	Tables map[string]TableProfile `json:"tables"`
}

// TableProfile is the part of a Profile about one table, of the records as they
// came.
type TableProfile struct {
	Rows    int64                    `json:"rows"`
	Columns map[string]ColumnProfile `json:"columns"`
}

// ColumnProfile is how often a column was filled, and with what.
type ColumnProfile struct {
	Filled int64  `json:"filled"`
	Type   string `json:"type"` // see [schemas.TypeName]
}

// profiler makes a Profile of the batches of a pass. It counts by column, from
// what Arrow has counted already.
type profiler struct {
	tables map[string]TableProfile
	page   int64 // records on the fullest page
	pages  int
}

// add takes the batch of a table.
func (f *profiler) add(t schemas.Table, b arrow.RecordBatch) {
	if f.tables == nil {
		f.tables = map[string]TableProfile{}
	}
	p, ok := f.tables[t.Name]
	if !ok {
		p.Columns = map[string]ColumnProfile{}
	}
	p.Rows += b.NumRows()
	for i, field := range b.Schema().Fields() {
		if schemas.Source(field) == "" && field.Name != schemas.ColRest {
			continue // penstock's own
		}
		c := p.Columns[field.Name]
		if n := b.NumRows() - int64(b.Column(i).NullN()); n > 0 {
			c.Filled += n
			c.Type = schemas.TypeName(schemas.TypeOf(field)) // the batches of a pass only widen
		}
		p.Columns[field.Name] = c
	}
	f.tables[t.Name] = p
}

// turn takes note of a page of n records.
func (f *profiler) turn(n int64) {
	f.page = max(f.page, n)
	f.pages++
}

// profile is what a pass that has ended looked like. Columns that never had a
// value are left out: nothing is known of them.
func (f *profiler) profile(at time.Time) *Profile {
	p := &Profile{At: at.UTC().Truncate(time.Second), Tables: map[string]TableProfile{}}
	if f.pages > 1 {
		p.Page = f.page
	}
	for name, t := range f.tables {
		columns := map[string]ColumnProfile{}
		for c, counts := range t.Columns {
			if counts.Filled > 0 {
				columns[c] = counts
			}
		}
		p.Tables[name] = TableProfile{Rows: t.Rows, Columns: columns}
	}
	return p
}

// same reports whether two passes looked alike: then there is nothing to keep.
func (p *Profile) same(o *Profile) bool {
	if p == nil || o == nil || p.Page != o.Page || len(p.Tables) != len(o.Tables) {
		return p == o
	}
	for name, t := range p.Tables {
		u, ok := o.Tables[name]
		if !ok || t.Rows != u.Rows || len(t.Columns) != len(u.Columns) {
			return false
		}
		for c, counts := range t.Columns {
			if u.Columns[c] != counts {
				return false
			}
		}
	}
	return true
}
