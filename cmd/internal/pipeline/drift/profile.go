// Package drift compares a whole pass over a stream with the previous whole pass, and says what has changed at the
// source.
package drift

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Profile summarizes a whole pass over a stream, so that the next pass can be compared with it. It contains no value
// of a record. Its size depends on the number of columns, not of rows. // Invariant 6
type Profile struct {
	At     time.Time               `json:"at"`
	Page   int64                   `json:"page,omitempty"` // records on the fullest page; 0 if there was only one page
	Tables map[string]TableProfile `json:"tables"`
}

// TableProfile is the part of a Profile about one table. It is made before the stream's rules apply.
type TableProfile struct {
	Rows    int64                    `json:"rows"`
	Columns map[string]ColumnProfile `json:"columns"`
}

// ColumnProfile contains the number of values in a column, without nulls, and their type.
type ColumnProfile struct {
	Filled int64  `json:"filled"`
	Type   string `json:"type"` // the type that the source sends; see [schemas.TypeName]
}

// Profiler makes the Profile of a pass.
type Profiler struct {
	widened map[columnName]arrow.DataType // columns that were widened since the previous profile, with their earlier types

	tables map[string]TableProfile
	page   int64 // records on the fullest page
	pages  int
}

type columnName struct{ table, column string }

// NewProfiler returns a Profiler. Its arguments are the previous profile, which may be nil, and the tables as they are
// at the beginning of the pass. Another source that shares a table may have widened a column of it. Then the type of
// the column says nothing about this source, and the Profiler compares the values themselves with the type in the
// previous profile.
func NewProfiler(before *Profile, have []schemas.Table) Profiler {
	f := Profiler{widened: map[columnName]arrow.DataType{}}
	if before == nil {
		return f
	}
	for _, t := range have {
		for _, field := range t.Columns.Fields() {
			b, known := before.Tables[t.Name].Columns[field.Name]
			if !known || b.Type == schemas.TypeName(schemas.TypeOf(field)) {
				continue
			}
			if was, err := schemas.ParseTypeName(b.Type); err == nil {
				f.widened[columnName{t.Name, field.Name}] = was
			}
		}
	}
	return f
}

// Add counts the rows of b.
func (f *Profiler) Add(t schemas.Table, b arrow.RecordBatch) {
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
			continue
		}
		c := p.Columns[field.Name]
		if n := b.NumRows() - int64(b.Column(i).NullN()); n > 0 {
			c.Filled += n
			c.Type = schemas.TypeName(f.sent(columnName{t.Name, field.Name}, schemas.TypeOf(field), b.Column(i))) // types only widen during a pass
		}
		p.Columns[field.Name] = c
	}
	f.tables[t.Name] = p
}

// The method sent() returns the type of the values that the source sends. The parameter `t` is the type of the column.
func (f *Profiler) sent(of columnName, t arrow.DataType, values arrow.Array) arrow.DataType {
	was, widened := f.widened[of]
	if widened && !allFit(values, t, was) {
		delete(f.widened, of)
		widened = false
	}
	if widened {
		return was
	}
	return t
}

// AddPage counts a page of n records.
func (f *Profiler) AddPage(n int64) {
	f.page = max(f.page, n)
	f.pages++
}

// Profile returns the Profile. Columns that never had a value are left out.
func (f *Profiler) Profile(at time.Time) *Profile {
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

// Same reports whether both profiles are equal, apart from their time.
func (p *Profile) Same(o *Profile) bool {
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
