// Package reject reads and writes rejects: records and values that no table could hold. It knows which of a stream's
// rejects are open.
package reject

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// Row is a row of the table of rejects.
type Row struct {
	Run, Pipeline, Stream string
	Pass                  int64
	At                    time.Time
	Accepted              time.Time
	Passed                bool // a later pass has begun
	Resolved              bool // resolved by an earlier pass or retry, or by the current retry
	transform.Reject
}

// Values returns the values of the row's columns, with the given times.
func (j *Row) Values(resolved, accepted time.Time) []any {
	return []any{
		j.Run, j.Pipeline, j.Stream, j.Pass, j.Ordinal, j.Pointer, j.At,
		j.Key, j.Wanted, j.Raw, j.Reason, j.Record, instant(resolved),
		j.Reject.ID, j.Stage, instant(accepted),
	}
}

func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// Values returns the values of the columns of a new row.
func Values(run, pipeline, stream string, pass int, now, accepted time.Time, r transform.Reject) []any {
	return (&Row{Run: run, Pipeline: pipeline, Stream: stream, Pass: int64(pass), At: now, Reject: r}).Values(time.Time{}, accepted)
}

// ID identifies the reject in its stream.
func (j *Row) ID() ID { return idOf(j.Reject) }

// PassID returns the id of the pass that rejected the record.
func (j *Row) PassID() string { return runid.OfPass(j.Run, j.Pass) }

// Columns returns the columns that At reads.
func Columns() []string {
	columns := make([]string, load.Rejects.Columns.NumFields())
	for i := range columns {
		columns[i] = load.Rejects.Columns.Field(i).Name
	}
	return columns
}

// At returns row i of a batch.
func At(b arrow.RecordBatch, i int) *Row {
	text := func(c int) string { return rowhash.Text(b.Column(c), i) }
	return &Row{
		Run: text(0), Pipeline: text(1), Stream: text(2), Pass: Int64At(b.Column(3), i), At: rowhash.Time(b.Column(6), i),
		Resolved: !b.Column(12).IsNull(i), Accepted: rowhash.Time(b.Column(15), i),
		Reject: transform.Reject{
			Ordinal: Int64At(b.Column(4), i), Pointer: text(5), Key: text(7), Wanted: text(8), Raw: text(9), Reason: text(10),
			Record: flagAt(b.Column(11), i), ID: text(13), Stage: text(14),
		},
	}
}

func flagAt(a arrow.Array, i int) bool {
	flag, ok := a.(*array.Boolean)
	return ok && flag.IsValid(i) && flag.Value(i)
}

// Int64At returns value i of a column, or 0 if the value is null.
func Int64At(a arrow.Array, i int) int64 {
	if n, ok := a.(*array.Int64); ok && n.IsValid(i) {
		return n.Value(i)
	}
	return 0
}

// PlainKey formats a key of one column as rowhash.Text does. It returns false if the JSON is neither a text nor an
// integer.
func PlainKey(text string) (key string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		return key, json.Unmarshal([]byte(text), &key) == nil
	}
	return text, Integer(text)
}

// Integer reports whether text is an integer as JSON formats it.
func Integer(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == text
}
