package pipeline

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
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

func (r *run) streamsWithRejects(ctx context.Context, d Destination) (map[string]bool, error) {
	found := map[string]bool{}
	columns := []string{"pipeline", "stream", "resolved_at"}
	err := d.Scan(ctx, load.Rejects.Name, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if rowhash.Text(b.Column(0), i) == r.Name && b.Column(2).IsNull(i) {
				found[rowhash.Text(b.Column(1), i)] = true
			}
		}
		return nil
	})
	return found, err
}

// rejects returns the rejects that want selects, up to the limits of one call. It counts the others in t.done.Left.
func (t *rejectRetry) rejects(ctx context.Context, want func(*reject) bool) ([]*reject, error) {
	var all []*reject
	bytes := 0
	columns := make([]string, load.Rejects.Columns.NumFields())
	for i := range columns {
		columns[i] = load.Rejects.Columns.Field(i).Name
	}
	err := t.dest.Scan(ctx, load.Rejects.Name, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			j := rejectAt(b, i)
			switch {
			case j.pipeline != t.Name || j.stream != t.stream.Name || j.resolved || !want(j):
			case len(all) >= retryRecords || bytes >= retryBytes:
				t.done.Left++
			default:
				all = append(all, j)
				bytes += len(j.raw)
			}
		}
		return nil
	})
	return all, err
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

// sort returns the rejects to retry. If a later pass has read the whole list, the older rejects are resolved: that
// pass rejected the same records again if it had to. While a later pass is unfinished, its stream's rejects cannot be
// retried.
func (t *rejectRetry) sort(all []*reject, pos cursor.Position) (open []*reject) {
	for _, j := range all {
		j.passed = cmp.Compare(j.passID(), pos.Pass) < 0
		switch {
		case pos.Ended && cmp.Compare(j.passID(), pos.LastWhole()) < 0 && !t.stream.Window:
			j.resolved = true
			t.done.Superseded++
		case !j.record:
			t.done.Waiting++
		case j.passed && pos.MidPass():
			t.reject(j, "a later pass over the stream is not finished; run sync first")
		default:
			open = append(open, j)
		}
	}
	slices.SortFunc(open, func(a, b *reject) int { // of two records with the same key, the later one must be written last
		return cmp.Or(cmp.Compare(a.passID(), b.passID()), cmp.Compare(a.ordinal, b.ordinal))
	})
	return open
}

func (t *rejectRetry) reject(j *reject, why string) {
	j.why = why
	t.done.Retried++
	t.done.Rejected++
	if len(t.done.Still) < stillListed {
		t.done.Still = append(t.done.Still, StillRejected{Run: j.run, Ordinal: j.ordinal, Key: j.key, Reason: why})
	}
}

func (t *rejectRetry) resolve(j *reject) {
	j.resolved = true
	t.done.Retried++
	t.done.Resolved++
}
