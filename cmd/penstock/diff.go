package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
)

func (a *app) runsDiffCmd() *cobra.Command {
	var to selection
	var table string
	cmd := &cobra.Command{
		Use:   "diff A B --table T",
		Short: "show how a table's rows changed between two runs",
		Long: `Shows how a table's rows changed from the end of run A to the end of run B: the
inserted and deleted rows, and the changed columns of updated rows. It shows the net
effect: a value that changed and changed back is left out. Changes are logged only
if the pipeline or the stream has changes: true.`,
		Example: "  penstock runs diff co6bjmfsd81u co6bjogeiftv --table sales_invoices",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, run := range args {
				if err := checkRunID(run); err != nil {
					return err
				}
			}
			switch {
			case table == "":
				return failure.Usage("", "name a table with --table")
			case args[0] > args[1]:
				return failure.Usage("", "run %s is later than %s; name the earlier one first", args[0], args[1])
			}
			return a.read(cmd.Context(), to, func(d *reader) error {
				if err := d.one(); err != nil {
					return err
				}
				return a.diffRuns(cmd.Context(), d, table, args[0], args[1])
			})
		},
	}
	addDestinationFlag(cmd, &to)
	cmd.Flags().StringVar(&table, "table", "", "`table` to look at")
	return cmd
}

// diffRuns prints the net effect of all changes to a table between the ends of two runs.
func (a *app) diffRuns(ctx context.Context, d *reader, table, from, to string) error {
	t, err := d.table(ctx, table)
	if err != nil {
		return err
	}
	spans, err := runSpans(ctx, d)
	if err != nil {
		return err
	}
	for _, run := range []string{from, to} {
		switch s, ok := spans[run]; {
		case !ok:
			return &failure.Error{Err: fmt.Errorf("no run %s", run), Hint: "`penstock runs` lists them", Code: failure.ExitFailed}
		case s.until.IsZero():
			return &failure.Error{Err: fmt.Errorf("run %s has not ended", run), Hint: "wait for it, or name an earlier one", Code: failure.ExitFailed}
		}
	}
	log, err := readLog(ctx, d, table, span{spans[from].until, spans[to].until})
	if err != nil {
		return err
	}
	if log.stream == "" {
		return &failure.Error{Err: fmt.Errorf("no changes of %s were logged", table), Code: failure.ExitFailed,
			Hint: "set changes: true in the pipeline; later runs then log their changes"}
	}
	if err := a.warnUnlogged(ctx, d, log, spans); err != nil {
		return err
	}
	return a.printDiff(log.net(len(t.Key) == 0))
}

// span is a period of time: after since, up to and including until.
type span struct{ since, until time.Time }

func (s span) holds(t time.Time) bool { return t.After(s.since) && !t.After(s.until) }

// runSpans returns when each recorded run was under way. A run that has not ended has a zero end.
func runSpans(ctx context.Context, d load.Destination) (map[string]span, error) {
	spans := map[string]span{}
	err := scan(ctx, d, load.Runs, func(r row) error {
		spans[r.text("run")] = span{r.time("started_at"), r.time("ended_at")}
		return nil
	})
	return spans, err
}

// rowChange is an entry of penstock's log of row changes.
type rowChange struct {
	key, action   string
	at            time.Time
	before, after string // JSON objects; "" for none
}

// rowLog is the part of penstock's log of row changes that a diff needs.
type rowLog struct {
	stream  string      // the stream that fills the table; "" if nothing was logged
	changes []rowChange // in the order in which they were made
	of      span        // the period between the two runs
}

// readLog reads the logged changes of a table in a period. It does not select by run, because a run
// that continues the pass of an earlier run logs its changes under the earlier run's id.
func readLog(ctx context.Context, d load.Destination, table string, of span) (rowLog, error) {
	log := rowLog{of: of}
	err := scan(ctx, d, load.RowChanges, func(r row) error {
		if r.text("table") != table {
			return nil
		}
		log.stream = r.text("stream")
		if at := r.time("at"); of.holds(at) {
			log.changes = append(log.changes, rowChange{
				key: r.text("key"), action: r.text("action"), at: at, before: r.text("before"), after: r.text("after"),
			})
		}
		return nil
	})
	slices.SortStableFunc(log.changes, func(a, b rowChange) int { return a.at.Compare(b.at) })
	return log, err
}

// warnUnlogged warns about runs in the period that changed rows but logged no changes, because the
// pipeline did not have changes: true yet.
func (a *app) warnUnlogged(ctx context.Context, d load.Destination, log rowLog, spans map[string]span) error {
	return scan(ctx, d, load.Certificates, func(r row) error {
		if r.text("stream") != log.stream || !log.of.holds(r.time("at")) || r.number("written")+r.number("deleted") == 0 {
			return nil
		}
		run := spans[r.text("run")]
		if !slices.ContainsFunc(log.changes, func(c rowChange) bool { return run.holds(c.at) }) {
			a.log.Warn("a run in this period changed rows but did not log the changes", "run", r.text("run"), "stream", log.stream)
		}
		return nil
	})
}

// effect is the net change of one row.
type effect struct {
	Change  string                `json:"change"` // inserted, updated or deleted
	Key     json.RawMessage       `json:"key"`
	Rows    int64                 `json:"rows,omitempty"` // number of equal rows, in a table without a key
	Columns map[string]cellChange `json:"columns,omitempty"`
	Before  json.RawMessage       `json:"before,omitempty"`
	After   json.RawMessage       `json:"after,omitempty"`
}

// cellChange has the value of a column before and after the change. A value is null if the row did not have the
// column.
type cellChange struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// net returns the net change of each key.
func (l rowLog) net(keyless bool) []effect {
	byKey := map[string][]rowChange{}
	for _, c := range l.changes {
		byKey[c.key] = append(byKey[c.key], c)
	}
	var out []effect
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

// netOfKey returns the net change of one key. ok is false if its changes cancel out.
func netOfKey(changes []rowChange) (e effect, ok bool) {
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

// netOfRows counts equal rows of a table without a key.
func netOfRows(changes []rowChange) (e effect, ok bool) {
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
func diffRow(before, after string) map[string]cellChange {
	var a, b map[string]json.RawMessage
	_ = json.Unmarshal([]byte(before), &a) // text that is not an object has no columns
	_ = json.Unmarshal([]byte(after), &b)
	diff := map[string]cellChange{}
	for name := range a {
		if !bytes.Equal(a[name], orJSONNull(b[name])) {
			diff[name] = cellChange{a[name], orJSONNull(b[name])}
		}
	}
	for name := range b {
		if _, both := a[name]; !both && !bytes.Equal(b[name], orJSONNull(nil)) {
			diff[name] = cellChange{orJSONNull(nil), b[name]}
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

func (a *app) printDiff(effects []effect) error {
	if a.json {
		return render.EncodeLines(a.out, effects)
	}
	g := render.NewTable("change", "key", "column", "before", "after")
	count := map[string]int{}
	for _, e := range effects {
		count[e.Change]++
		key := strings.Trim(string(e.Key), "[]")
		for _, name := range sortedKeys(e.Columns) {
			g.Add(e.Change, key, name, string(e.Columns[name].Before), string(e.Columns[name].After))
		}
		if e.Columns == nil {
			g.Add(e.Change, key, "", string(e.Before), string(e.After))
		}
	}
	g.Render(a.out)
	_, err := fmt.Fprintf(a.out, "%d inserted, %d updated, %d deleted\n", count["inserted"], count["updated"], count["deleted"])
	return err
}
