package rejects

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
)

func streamsWithRejects(ctx context.Context, pipeline string, d pipeline.Destination) (map[string]bool, error) {
	found := map[string]bool{}
	columns := []string{"pipeline", "stream", "resolved_at"}
	err := d.Scan(ctx, load.Rejects.Name, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			if rowhash.Text(b.Column(0), i) == pipeline && b.Column(2).IsNull(i) {
				found[rowhash.Text(b.Column(1), i)] = true
			}
		}
		return nil
	})
	return found, err
}

// rejects() returns the rejects for which want() returns true, up to the limits of one call. It counts the remaining
// rejects in t.done.Left.
func (t *rejectRetry) rejects(ctx context.Context, want func(*reject.Row) bool) ([]*reject.Row, error) {
	var all []*reject.Row
	bytes := 0
	err := t.dest.Scan(ctx, load.Rejects.Name, reject.Columns(), func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			j := reject.At(b, i)
			switch {
			case j.Pipeline != t.Config.Name || j.Stream != t.stream.Name || j.Resolved || !want(j):
			case len(all) >= retryRecords || bytes >= retryBytes:
				t.done.Left++
			default:
				all = append(all, j)
				bytes += len(j.Raw)
			}
		}
		return nil
	})
	return all, err
}

// sort returns the rejects to retry. If a later pass has read the whole list, the older rejects are resolved: that
// pass has rejected the same records again if they still did not fit. If a later pass is not finished, rejects of
// earlier passes cannot be retried.
func (t *rejectRetry) sort(all []*reject.Row, pos cursor.Position) (open []*reject.Row) {
	for _, j := range all {
		j.Passed = cmp.Compare(j.PassID(), pos.Pass) < 0
		switch {
		case pos.Ended && cmp.Compare(j.PassID(), pos.LastWhole()) < 0 && !t.stream.Window:
			j.Resolved = true
			t.done.Superseded++
		case !j.Record:
			t.done.Waiting++
		case j.Passed && pos.MidPass():
			t.reject(j, "a later pass over the stream is not finished; run sync first")
		default:
			open = append(open, j)
		}
	}
	slices.SortFunc(open, func(a, b *reject.Row) int { // of two records with the same key, the later one must be written last
		return cmp.Or(cmp.Compare(a.PassID(), b.PassID()), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	return open
}

func (t *rejectRetry) reject(j *reject.Row, why string) {
	t.done.Retried++
	t.done.Rejected++
	if len(t.done.Still) < stillListed {
		t.done.Still = append(t.done.Still, StillRejected{Run: j.Run, Ordinal: j.Ordinal, Key: j.Key, Reason: why})
	}
}

func (t *rejectRetry) resolve(j *reject.Row) {
	j.Resolved = true
	t.done.Retried++
	t.done.Resolved++
}
