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

type table struct {
	schemas.Table
	rows          []Row
	changedByHand map[string]arrow.DataType // columns changed by hand, with their new type; nil: dropped
	index         map[string]int            // by key: the position, in the field rows, of the record's row or latest version; nil until needed
	counts        map[string]int            // number of current rows by hash; nil until needed
}

func (t *table) copy() *table {
	return &table{Table: t.Table, rows: slices.Clone(t.rows), changedByHand: t.changedByHand}
}

// changed drops the indexes. It must be called after rows were removed or replaced.
func (t *table) changed() { t.index, t.counts = nil, nil }

func ordinal(r Row, i int) int64 {
	if text, ok := r[schemas.ColOrdinal]; ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return int64(i)
}

func (t *table) isCurrent(r Row) bool {
	ended := schemas.ColDeletedAt
	if t.Mode == schemas.History {
		ended = schemas.ColValidTo
	}
	_, over := r[ended]
	return !over
}

func (t *table) id(r Row) string {
	var b strings.Builder
	for _, k := range t.Key {
		fmt.Fprintf(&b, "%d:%s,", len(r[k]), r[k])
	}
	return b.String()
}

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

func (t *table) follows(a, b Row) bool {
	if sa, sb := t.isCurrent(a), t.isCurrent(b); t.Mode == schemas.History && sa != sb {
		return sa
	}
	if a[schemas.ColRun] != b[schemas.ColRun] {
		return a[schemas.ColRun] > b[schemas.ColRun]
	}
	return a.time(schemas.ColSyncedAt).After(b.time(schemas.ColSyncedAt))
}

// add appends a row. The row must be the first or the last version of its record.
func (t *table) add(r Row) {
	if t.index != nil {
		t.index[t.id(r)] = len(t.rows)
	}
	t.rows = append(t.rows, r)
}

func (t *table) count(hash string) int {
	if t.counts == nil {
		t.counts = map[string]int{}
		for _, r := range t.rows {
			if t.Mode != schemas.History || t.isCurrent(r) {
				t.counts[r[schemas.ColHash]]++
			}
		}
	}
	return t.counts[hash]
}

func (t *table) replace(r Row) {
	if len(t.Key) > 0 {
		if i := t.find(t.id(r)); i >= 0 {
			t.rows[i] = r
			return
		}
	}
	t.add(r)
}

// link returns the text with which child rows refer to the row r. If the key is one column, this is the value of that
// column. Otherwise it is the JSON array of the key's values.
func (t *table) link(r Row) string {
	if len(t.Key) == 1 {
		return r[t.Key[0]]
	}
	return t.keyJSON(r)
}

func (t *table) keyJSON(r Row) string {
	values := make([]string, len(t.Key))
	for i, k := range t.Key {
		f := t.Columns.Field(t.Columns.FieldIndices(k)[0])
		values[i] = jsonOf(r[k], schemas.TypeOf(f), true)
	}
	return "[" + strings.Join(values, ",") + "]"
}

// plain returns a link with all values as texts. So two links are equal even if a key column was widened after one of
// them was written.
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

func (r Row) with(column, text string) Row {
	out := make(Row, len(r)+1)
	for k, v := range r {
		out[k] = v
	}
	out[column] = text
	return out
}

func (r Row) time(column string) time.Time {
	t, _ := time.Parse(time.RFC3339, r[column])
	return t
}

func laterOf(a, b string) string {
	if (Row{"b": b}).time("b").After((Row{"a": a}).time("a")) {
		return b
	}
	return a
}
