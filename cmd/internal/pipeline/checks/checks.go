// Package checks runs the checks of a stream's table in a destination, and records their results.
package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of a check.
const (
	OK     Outcome = "ok"
	Failed Outcome = "failed"
	Held   Outcome = "held"  // rows that failed kept a commit back
	Errors Outcome = "error" // the check could not run
)

// Result is the result of a check in one run.
type Result struct {
	Source   string            `json:"source,omitempty"` // in a report over several sources
	Name     string            `json:"name"`
	Kind     schemas.CheckKind `json:"kind"`
	OnFail   string            `json:"on_fail"`
	Outcome  Outcome           `json:"result"`
	Failing  int64             `json:"failing"`
	Rows     *int64            `json:"rows,omitempty"` // nil: not counted
	Examples []json.RawMessage `json:"-"`              // values of rows: only readers of the destination may see them
	Detail   string            `json:"detail,omitempty"`
	At       time.Time         `json:"at"`
	Took     time.Duration     `json:"took"`
}

// Good reports whether the check has passed.
func (r Result) Good() bool { return r.Outcome == OK }

// String says what the check has found, for people.
func (r Result) String() string {
	if r.Outcome == Errors {
		return r.Title() + " could not run: " + r.Detail
	}
	return r.Title() + ": " + r.Found()
}

// Title returns the name of the check. In a report over several sources, the source comes first.
func (r Result) Title() string {
	if r.Source == "" {
		return r.Name
	}
	return r.Source + " " + r.Name
}

// Found is like String, without the name of the check. It leaves out the examples.
func (r Result) Found() string {
	if r.Outcome == Errors {
		return r.Detail
	}
	return load.CheckOutcome{Failing: r.Failing, Detail: r.Detail}.Describe()
}

// Table is a table to check in one destination.
type Table struct {
	Key     state.Key
	Name    string
	Checker load.Checker                                          // nil: the destination can run no checks except queries
	Query   func(context.Context, func(load.Querier) error) error // nil: the destination has no SQL
	Source  string                                                // the source whose rows the run has loaded
	Current bool                                                  // the table has the view <table>_current
}

// patience is how long one check may take. // Invariant 15
const patience = 5 * time.Minute

// Run runs a check. If the table does not exist, the second result is false, and the first one is what this means after
// a pass: the table has no rows.
func (t Table) Run(ctx context.Context, c schemas.Check, now func() time.Time) (Result, bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	out, there, err := t.outcome(ctx, c, now())
	failed := err != nil
	if !there && !failed {
		out, err = noTable(c)
	}
	r := resultOf(c, out, now())
	r.Took = time.Since(began)
	if err != nil {
		r.Outcome, r.Detail = Errors, strings.TrimPrefix(cause(err), "check "+c.Name+" of "+t.Name+": ")
	}
	return r, there || failed
}

// noTable returns the outcome of a check of a table that does not exist.
func noTable(c schemas.Check) (out load.CheckOutcome, err error) {
	switch c.Kind {
	case schemas.CheckRows:
		if least, err := strconv.ParseInt(c.Min, 10, 64); err == nil && least > 0 {
			out.Failing, out.Detail = 1, fmt.Sprintf("the table does not exist: 0 rows, fewer than %d", least)
		}
	case schemas.CheckFresh:
		out.Rows, out.Failing, out.Detail = -1, 1, "the table does not exist"
	default:
		out.Rows, err = -1, errors.New("the table does not exist")
	}
	return out, err
}

func (t Table) outcome(ctx context.Context, c schemas.Check, now time.Time) (load.CheckOutcome, bool, error) {
	if c.Kind == schemas.CheckSQL {
		return t.query(ctx, c)
	}
	if t.Checker == nil {
		return load.CheckOutcome{}, true, errors.New("the destination cannot check rows")
	}
	return t.Checker.CheckRows(ctx, t.Key, t.Name, c, now)
}

// cause returns the first line of an error.
func cause(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}

func resultOf(c schemas.Check, out load.CheckOutcome, at time.Time) Result {
	r := Result{Name: c.Name, Kind: c.Kind, OnFail: c.OnFail(), Outcome: OK, Failing: out.Failing, Detail: out.Detail, At: at}
	if out.Rows >= 0 && c.Kind != schemas.CheckSQL {
		r.Rows = &out.Rows
	}
	for _, e := range out.Examples {
		if json.Valid([]byte(e)) {
			r.Examples = append(r.Examples, json.RawMessage(e))
		}
	}
	if out.Failing > 0 {
		r.Outcome = Failed
	}
	return r
}

// Broken returns the result of a check that could not begin.
func Broken(c schemas.Check, err error, at time.Time) Result {
	r := resultOf(c, load.CheckOutcome{Rows: -1}, at)
	r.Outcome, r.Detail = Errors, cause(err)
	return r
}

// OfError returns the results of the checks that have kept a commit back.
func OfError(err error, at time.Time) (all []Result) {
	e, ok := errors.AsType[*load.CheckError](err)
	if !ok {
		return nil
	}
	for _, f := range e.Failed {
		r := resultOf(f.Check, f.CheckOutcome, at)
		r.Outcome = Held
		all = append(all, r)
	}
	return all
}

// query runs the query of a user. Each row of its result fails the check.
func (t Table) query(ctx context.Context, c schemas.Check) (out load.CheckOutcome, there bool, err error) {
	if t.Query == nil {
		return out, true, errors.New("the destination does not support SQL")
	}
	out.Rows = -1
	err = t.Query(ctx, func(q load.Querier) error {
		return q.Query(ctx, t.fill(c.SQL), func(b arrow.RecordBatch) error {
			for i := range int(b.NumRows()) {
				if len(out.Examples) < load.MostExamples {
					out.Examples = append(out.Examples, example(b, i))
				}
			}
			out.Failing += b.NumRows()
			return nil
		})
	})
	return out, true, err
}

// fill replaces {table} and {source} in a query.
func (t Table) fill(sql string) string {
	name := t.Name
	if t.Current {
		name += "_current"
	}
	return strings.NewReplacer("{table}", name, "{source}", "'"+strings.ReplaceAll(t.Source, "'", "''")+"'").Replace(sql)
}

const (
	mostColumns = 8   // columns of a row that an example has
	mostText    = 200 // longest value in an example, in bytes
)

// example returns the first columns of a row as a JSON object.
func example(b arrow.RecordBatch, row int) string {
	var parts []string
	for i, f := range b.Schema().Fields() {
		if i == mostColumns {
			break
		}
		name, _ := json.Marshal(f.Name) // marshaling a text never fails
		value := []byte("null")
		if c := b.Column(i); !c.IsNull(row) {
			text := c.ValueStr(row)
			if value = []byte(text); !slices.Contains([]arrow.Type{arrow.INT64, arrow.INT32, arrow.FLOAT64, arrow.BOOL}, c.DataType().ID()) || !json.Valid(value) {
				value, _ = json.Marshal(strings.ToValidUTF8(text[:min(len(text), mostText)], ""))
			}
		}
		parts = append(parts, fmt.Sprintf("%s:%s", name, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// Row returns the row of [load.Checks] for a result.
func (r Result) Row(run string, k state.Key, table string) []any {
	var rows, examples, detail any
	if r.Rows != nil {
		rows = *r.Rows
	}
	if len(r.Examples) > 0 {
		if text, err := json.Marshal(r.Examples); err == nil {
			examples = string(text)
		}
	}
	if r.Detail != "" {
		detail = r.Detail
	}
	return []any{run, k.Pipeline, k.Stream, table, r.Name, string(r.Kind), r.OnFail, r.At, string(r.Outcome), r.Failing, rows, examples, detail, r.Took.Milliseconds()}
}
