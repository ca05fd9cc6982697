package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/penstock-data/penstock/load"
)

// Period is the time after Since, up to and including Until.
type Period struct{ Since, Until time.Time }

// Contains reports whether t is in the period.
func (s Period) Contains(t time.Time) bool { return t.After(s.Since) && !t.After(s.Until) }

// RunPeriods returns when each recorded run was under way. A run that has not ended has a zero end.
func RunPeriods(ctx context.Context, d load.Destination) (map[string]Period, error) {
	spans := map[string]Period{}
	err := Scan(ctx, d, load.Runs, func(r Row) error {
		spans[r.Text("run")] = Period{r.Time("started_at"), r.Time("ended_at")}
		return nil
	})
	return spans, err
}

// CheckKept returns an error if the log lacks row changes that a run's pipeline has made since the given time, because
// [load.Trimmer] has removed them.
func CheckKept(ctx context.Context, d load.Destination, run string, since time.Time) error {
	pipeline, removed := "", map[string]time.Time{} // by pipeline: changes before this time were removed
	err := Scan(ctx, d, load.Runs, func(r Row) error {
		name := r.Text("pipeline")
		if r.Text("run") == run {
			pipeline = name
		}
		var counts struct {
			Removed struct {
				Changes int64
				Before  time.Time
				Error   string
			}
		}
		if err := json.Unmarshal([]byte(cmp.Or(r.Text("counts"), "{}")), &counts); err != nil {
			return fmt.Errorf("read counts of run %s: %w", r.Text("run"), err)
		}
		// After an error, it is not known whether changes were removed.
		if c := counts.Removed; (c.Changes > 0 || c.Error != "") && c.Before.After(removed[name]) {
			removed[name] = c.Before
		}
		return nil
	})
	if before := removed[pipeline]; err == nil && since.Before(before) {
		err = fmt.Errorf("the logged changes from before %s were removed", before.UTC().Format(time.DateTime))
	}
	return err
}

// RowChange is an entry of penstock's log of row changes.
type RowChange struct {
	key, action   string
	At            time.Time
	before, after string // JSON objects; "" for none
}

// RowLog is the part of penstock's log of row changes that a diff needs.
type RowLog struct {
	Stream  string      // the stream that fills the table; "" if nothing was logged
	Changes []RowChange // in the order in which they were made
	Period  Period      // the period between the two runs
}

// ReadRowLog reads the logged changes of a table in a period. It does not select by run, because a run
// that continues the pass of an earlier run logs its changes under the earlier run's id.
func ReadRowLog(ctx context.Context, d load.Destination, table string, of Period) (RowLog, error) {
	log := RowLog{Period: of}
	err := Scan(ctx, d, load.RowChanges, func(r Row) error {
		if r.Text("table") != table {
			return nil
		}
		log.Stream = r.Text("stream")
		if at := r.Time("at"); of.Contains(at) {
			log.Changes = append(log.Changes, RowChange{
				key: r.Text("key"), action: r.Text("action"), At: at, before: r.Text("before"), after: r.Text("after"),
			})
		}
		return nil
	})
	slices.SortStableFunc(log.Changes, func(a, b RowChange) int { return a.At.Compare(b.At) })
	return log, err
}

// NetChange is the net change of one row.
type NetChange struct {
	Change  string                `json:"change"` // inserted, updated or deleted
	Key     json.RawMessage       `json:"key"`
	Rows    int64                 `json:"rows,omitempty"` // number of equal rows, in a table without a key
	Columns map[string]CellChange `json:"columns,omitempty"`
	Before  json.RawMessage       `json:"before,omitempty"`
	After   json.RawMessage       `json:"after,omitempty"`
}

// CellChange has the value of a column before and after the change. A value is null if the row did not have the
// column.
type CellChange struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// Net returns the net change of each key.
func (l RowLog) Net(keyless bool) []NetChange {
	byKey := map[string][]RowChange{}
	for _, c := range l.Changes {
		byKey[c.key] = append(byKey[c.key], c)
	}
	var out []NetChange
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		fold := netOfKey
		if keyless {
			fold = netOfRows
		}
		if e, ok := fold(byKey[key]); ok {
			e.Key = document(key)
			out = append(out, e)
		}
	}
	return out
}

// netOfKey returns the net change of one key. The result `ok` is false if the changes cancel each other out.
func netOfKey(changes []RowChange) (e NetChange, ok bool) {
	first, last := changes[0], changes[len(changes)-1]
	was := first.action == "update" || first.action == "delete"
	is := last.action != "delete"
	switch {
	case was && is:
		e.Change, e.Columns = "updated", diffRow(first.before, last.after)
		return e, len(e.Columns) > 0
	case is:
		e.Change, e.After = "inserted", document(last.after)
	case was:
		e.Change, e.Before = "deleted", document(first.before)
	default:
		return e, false
	}
	return e, true
}

// netOfRows returns the net change in the number of equal rows, for a table without a key.
func netOfRows(changes []RowChange) (e NetChange, ok bool) {
	for _, c := range changes {
		if c.action == "delete" {
			e.Rows--
			e.Before = document(c.before)
		} else {
			e.Rows++
			e.After = document(c.after)
		}
	}
	switch {
	case e.Rows > 0:
		e.Change, e.Before = "inserted", nil
	case e.Rows < 0:
		e.Change, e.After, e.Rows = "deleted", nil, -e.Rows
	}
	return e, e.Rows != 0
}

// diffRow compares two rows column by column.
func diffRow(before, after string) map[string]CellChange {
	var a, b map[string]json.RawMessage
	_ = json.Unmarshal([]byte(before), &a) // text that is not an object has no columns
	_ = json.Unmarshal([]byte(after), &b)
	diff := map[string]CellChange{}
	for name := range a {
		if !bytes.Equal(a[name], orJSONNull(b[name])) {
			diff[name] = CellChange{a[name], orJSONNull(b[name])}
		}
	}
	for name := range b {
		if _, both := a[name]; !both && !bytes.Equal(b[name], orJSONNull(nil)) {
			diff[name] = CellChange{orJSONNull(nil), b[name]}
		}
	}
	return diff
}

func orJSONNull(v json.RawMessage) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}

// document returns text unchanged if it is valid JSON. Otherwise it returns text as a JSON string.
func document(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string always marshals
	return quoted
}
