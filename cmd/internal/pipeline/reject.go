package pipeline

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
)

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
	err := t.dest.Scan(ctx, load.Rejects.Name, rejectColumns(), func(b arrow.RecordBatch) error {
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
