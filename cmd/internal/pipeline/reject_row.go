package pipeline

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

type reject struct {
	run, pipeline, stream    string
	pass, ordinal            int64
	pointer                  string
	at                       time.Time
	key, wanted, raw, reason string
	record                   bool
	id, stage                string
	accepted                 time.Time
	passed                   bool // a later pass has begun
	resolved                 bool // resolved by an earlier retry or pass, or by this retry
	why                      string
}

func (j *reject) row(resolved, accepted time.Time) []any {
	return []any{
		j.run, j.pipeline, j.stream, j.pass, j.ordinal, j.pointer, j.at,
		j.key, j.wanted, j.raw, j.reason, j.record, instant(resolved),
		j.id, j.stage, instant(accepted),
	}
}

func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

func rejectRow(run, pipeline, stream string, pass int, now, accepted time.Time, j transform.Reject) []any {
	return []any{
		run, pipeline, stream, pass, j.Ordinal, j.Pointer, now,
		j.Key, j.Wanted, j.Raw, j.Reason, j.Record, nil,
		j.ID, j.Stage, instant(accepted),
	}
}

func (j *reject) passID() string { return runid.OfPass(j.run, j.pass) }

// rejectColumns returns the columns that rejectAt reads.
func rejectColumns() []string {
	columns := make([]string, load.Rejects.Columns.NumFields())
	for i := range columns {
		columns[i] = load.Rejects.Columns.Field(i).Name
	}
	return columns
}

func rejectAt(b arrow.RecordBatch, i int) *reject {
	text := func(c int) string { return rowhash.Text(b.Column(c), i) }
	j := &reject{
		run: text(0), pipeline: text(1), stream: text(2), pass: number(b.Column(3), i), ordinal: number(b.Column(4), i), pointer: text(5),
		key: text(7), wanted: text(8), raw: text(9), reason: text(10), resolved: !b.Column(12).IsNull(i),
		id: text(13), stage: text(14), at: timeAt(b.Column(6), i), accepted: timeAt(b.Column(15), i), record: flagAt(b.Column(11), i),
	}
	return j
}

func timeAt(a arrow.Array, i int) time.Time {
	if at, ok := a.(*array.Timestamp); ok && at.IsValid(i) {
		return time.UnixMicro(int64(at.Value(i)))
	}
	return time.Time{}
}

func flagAt(a arrow.Array, i int) bool {
	flag, ok := a.(*array.Boolean)
	return ok && flag.IsValid(i) && flag.Value(i)
}

func number(a arrow.Array, i int) int64 {
	if n, ok := a.(*array.Int64); ok && n.IsValid(i) {
		return n.Value(i)
	}
	return 0
}

// plainKey formats a key of one column as rowhash.Text does. ok is false if the JSON is neither a text nor an
// integer.
func plainKey(text string) (key string, ok bool) {
	if strings.HasPrefix(text, `"`) {
		return key, json.Unmarshal([]byte(text), &key) == nil
	}
	return text, integer(text)
}

func integer(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && strconv.FormatInt(n, 10) == text
}
