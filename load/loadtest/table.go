package loadtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// table is one table; a transaction works on a copy.
type table struct {
	schemas.Table
	rows   []Row
	hand   map[string]arrow.DataType // columns that somebody has given another type, or dropped: nil
	index  map[string]int            // place in rows of each key's row, of its last version; nil until needed
	counts map[string]int            // number of rows that stand, by hash; nil until needed
}

func (t *table) copy() *table {
	return &table{Table: t.Table, rows: slices.Clone(t.rows), hand: t.hand}
}

// changed forgets what was derived from the rows.
func (t *table) changed() { t.index, t.counts = nil, nil }

func ordinal(r Row, i int) int64 {
	if text, ok := r[schemas.ColOrdinal]; ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return int64(i)
}

// stands reports whether r is a row of t as the source has it now, for all that
// is known: neither bears a tombstone nor has ended.
func (t *table) stands(r Row) bool {
	ended := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		ended = schemas.ColValidTo
	}
	_, over := r[ended]
	return !over
}

// id tells the records of t apart.
func (t *table) id(r Row) string {
	var b strings.Builder
	for _, k := range t.Key {
		fmt.Fprintf(&b, "%d:%s,", len(r[k]), r[k])
	}
	return b.String()
}

// find is the place of the record's row, or of its last version, or -1.
func (t *table) find(id string) int {
	if t.index == nil {
		t.index = make(map[string]int, len(t.rows))
		for i, r := range t.rows {
			if j, ok := t.index[t.id(r)]; !ok || t.follows(r, t.rows[j]) {
				t.index[t.id(r)] = i
			}
		}
	}
	if i, ok := t.index[id]; ok {
		return i
	}
	return -1
}

// follows reports whether a is a later version than b of the same record.
func (t *table) follows(a, b Row) bool {
	if sa, sb := t.stands(a), t.stands(b); t.Mode == schemas.History && sa != sb {
		return sa
	}
	if a[schemas.ColRun] != b[schemas.ColRun] {
		return a[schemas.ColRun] > b[schemas.ColRun]
	}
	return a.time(schemas.ColSyncedAt).After(b.time(schemas.ColSyncedAt))
}

// add appends a row that is the first of its record or its last version.
func (t *table) add(r Row) {
	if t.index != nil {
		t.index[t.id(r)] = len(t.rows)
	}
	t.rows = append(t.rows, r)
}

// count is the number of rows with that hash that a row without a key may be
// one of.
func (t *table) count(hash string) int {
	if t.counts == nil {
		t.counts = map[string]int{}
		for _, r := range t.rows {
			if t.Mode != schemas.History || t.stands(r) {
				t.counts[r[schemas.ColHash]]++
			}
		}
	}
	return t.counts[hash]
}

// replace puts r in the place of the row with its key, or adds it.
func (t *table) replace(r Row) {
	if len(t.Key) > 0 {
		if i := t.find(t.id(r)); i >= 0 {
			t.rows[i] = r
			return
		}
	}
	t.add(r)
}

// link is what the children of the row r of t have in their link column: the
// key where it is one column, else the JSON array of its values.
func (t *table) link(r Row) string {
	if len(t.Key) == 1 {
		return r[t.Key[0]]
	}
	return t.keyJSON(r)
}

// keyJSON is the JSON array of the values of a row's key.
func (t *table) keyJSON(r Row) string {
	values := make([]string, len(t.Key))
	for i, k := range t.Key {
		f := t.Columns.Field(t.Columns.FieldIndices(k)[0])
		values[i] = jsonOf(r[k], schemas.TypeOf(f), true)
	}
	return "[" + strings.Join(values, ",") + "]"
}

// plain is a link without the types of its values, which may have grown since it
// was written.
func (t *table) plain(link string) string {
	var values []any
	d := json.NewDecoder(strings.NewReader(link))
	d.UseNumber()
	if len(t.Key) < 2 || d.Decode(&values) != nil {
		return link
	}
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%q,", fmt.Sprint(v))
	}
	return b.String()
}

// with is the row with another cell in a column.
func (r Row) with(column, text string) Row {
	out := make(Row, len(r)+1)
	for k, v := range r {
		out[k] = v
	}
	out[column] = text
	return out
}

// time is the instant in a cell; the zero time where it is null.
func (r Row) time(column string) time.Time {
	t, _ := time.Parse(time.RFC3339, r[column])
	return t
}

// laterOf is the later of two instants as cells have them; "" is before all.
func laterOf(a, b string) string {
	if (Row{"b": b}).time("b").After((Row{"a": a}).time("a")) {
		return b
	}
	return a
}
