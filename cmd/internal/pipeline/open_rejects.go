package pipeline

import (
	"context"
	"maps"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// maxOpenRejects is the number of rejects of one stream that a run remembers. If there are more, the run only counts
// the lost records among the others. // Invariant 6
const maxOpenRejects = 100_000

type rejectID struct{ record, pointer string }

func rejectIDOf(r transform.Reject) rejectID { return rejectID{r.ID, r.Pointer} }

type openReject struct {
	key, stage, reason string
	record             bool // the record is missing from the table, not only a value
	accepted           time.Time
}

// lost reports whether the record is missing from the table. Records that a contract excludes do not count as lost,
// because the user wants that.
func (o openReject) lost() bool {
	return o.record && o.accepted.IsZero() && o.stage != transform.StageContract
}

// openRejects are the unresolved rejects of one stream in one destination. Only the stream's goroutine uses them.
type openRejects struct {
	all  map[rejectID]openReject
	more int64 // number of lost records that are not in the map
}

func newOpenRejects() *openRejects { return &openRejects{all: map[rejectID]openReject{}} }

// accepted returns when a person accepted the loss of r. If r has another reason than the accepted reject, the loss
// is not accepted.
func (o *openRejects) accepted(r transform.Reject) time.Time {
	if o == nil {
		return time.Time{}
	}
	have, ok := o.all[rejectIDOf(r)]
	if !ok || have.reason != r.Reason {
		return time.Time{}
	}
	return have.accepted
}

func (o *openRejects) keys() map[string]bool {
	found := map[string]bool{}
	for _, r := range o.all {
		if key, ok := plainKey(r.key); ok {
			found[key] = true
		}
	}
	return found
}

var openRejectColumns = []string{"pipeline", "stream", "record_id", "pointer", "key", "stage", "reason", "record", "accepted_at", "resolved_at"}

// readOpenRejects returns the open rejects of a pipeline in a destination, by stream.
func readOpenRejects(ctx context.Context, d load.Destination, pipeline string) (map[string]*openRejects, error) {
	streams := map[string]*openRejects{}
	err := d.Scan(ctx, load.Rejects.Name, openRejectColumns, func(b arrow.RecordBatch) error {
		text := func(c, i int) string { return rowhash.Text(b.Column(c), i) }
		for i := range int(b.NumRows()) {
			if text(0, i) != pipeline || !b.Column(9).IsNull(i) {
				continue
			}
			o := streams[text(1, i)]
			if o == nil {
				o = newOpenRejects()
				streams[text(1, i)] = o
			}
			r := openReject{key: text(4, i), stage: text(5, i), reason: text(6, i), record: flagAt(b.Column(7), i), accepted: timeAt(b.Column(8), i)}
			switch {
			case len(o.all) < maxOpenRejects:
				o.all[rejectID{text(2, i), text(3, i)}] = r
			case r.lost():
				o.more++
			}
		}
		return nil
	})
	return streams, err
}

// metRejects are the rejects of a pass, and the records that it stored although they had open rejects.
type metRejects struct {
	all     map[rejectID]openReject
	more    int64           // number of lost records that are not in the map
	watched map[string]bool // plain keys of records with open rejects, in any destination
	stored  map[string]bool
}

func (m *metRejects) add(rejects ...transform.Reject) {
	for _, r := range rejects {
		o := openReject{key: r.Key, stage: r.Stage, reason: r.Reason, record: r.Record}
		switch {
		case len(m.all) < maxOpenRejects:
			if m.all == nil {
				m.all = map[rejectID]openReject{}
			}
			m.all[rejectIDOf(r)] = o
		case o.lost():
			m.more++
		}
	}
}

// asOpen returns the rejects of the pass as those that a destination without open rejects has after it.
func (m *metRejects) asOpen() *openRejects { return &openRejects{all: m.all, more: m.more} }

func (m *metRejects) watch(o *openRejects) {
	if len(o.all) == 0 {
		return
	}
	if m.watched == nil {
		m.watched, m.stored = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(m.watched, o.keys())
}

func (m *metRejects) store(b transform.TableBatch) {
	if len(m.watched) == 0 || len(b.Table.Key) != 1 {
		return
	}
	keys, err := rowhash.Columns(b.Batch, b.Table.Key)
	if err != nil {
		return
	}
	for i := range int(b.Batch.NumRows()) {
		if key := rowhash.Text(keys[0], i); m.watched[key] {
			m.stored[key] = true
		}
	}
}

// afterPass splits the open rejects into those that are left and those that are resolved. If the pass read every
// record, rejects that did not occur again are resolved. Otherwise only the rejects of records that the pass stored
// are resolved.
func (o *openRejects) afterPass(m *metRejects, everything bool) (left *openRejects, resolved map[rejectID]bool) {
	left, resolved = &openRejects{all: map[rejectID]openReject{}, more: m.more}, map[rejectID]bool{}
	for id, r := range m.all {
		if have, ok := o.all[id]; ok && have.reason == r.reason {
			r.accepted = have.accepted
		}
		left.all[id] = r
	}
	for id, r := range o.all {
		if _, again := m.all[id]; again {
			continue
		}
		key, plain := plainKey(r.key)
		met := everything && m.more == 0 || plain && id.record == r.key && m.stored[key]
		if met && r.stage != transform.StageLoad && r.stage != transform.StageWebhook {
			resolved[id] = true
			continue
		}
		left.all[id] = r
	}
	if !everything {
		left.more += o.more
	}
	return left, resolved
}

func (o *openRejects) lost() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() {
			n++
		}
	}
	return n
}

// nameless counts the lost records whose key is unknown. Their child records cannot be requested.
func (o *openRejects) nameless() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() && r.key == "" {
			n++
		}
	}
	return n
}
