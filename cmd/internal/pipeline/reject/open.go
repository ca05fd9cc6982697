package reject

import (
	"context"
	"maps"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// maxOpenRejects is the number of rejects of one stream that a run remembers. If there are more rejects, the run only
// counts the lost records among them. // Invariant 6
const maxOpenRejects = 100_000

// ID identifies a reject in its stream.
type ID struct{ record, pointer string }

func idOf(r transform.Reject) ID { return ID{r.ID, r.Pointer} }

type openReject struct {
	key, stage, reason string
	record             bool // the whole record is missing from the table, not only a value
	accepted           time.Time
}

// lost reports whether the record is missing from the table. Records that a contract excludes do not count as lost,
// because the user wants that.
func (o openReject) lost() bool {
	return o.record && o.accepted.IsZero() && o.stage != transform.StageContract
}

// Open contains the unresolved rejects of one stream in one destination. Only the stream's goroutine uses it.
type Open struct {
	all  map[ID]openReject
	more int64 // number of lost records that are not in the map
}

// NewOpen returns an Open without rejects.
func NewOpen() *Open { return &Open{all: map[ID]openReject{}} }

// Accepted returns the time when a person accepted the loss of r. If r has another reason than the accepted reject, the
// loss is not accepted.
func (o *Open) Accepted(r transform.Reject) time.Time {
	if o == nil {
		return time.Time{}
	}
	have, ok := o.all[idOf(r)]
	if !ok || have.reason != r.Reason {
		return time.Time{}
	}
	return have.accepted
}

func (o *Open) keys() map[string]bool {
	found := map[string]bool{}
	for _, r := range o.all {
		if key, ok := PlainKey(r.key); ok {
			found[key] = true
		}
	}
	return found
}

// OpenColumns returns the columns of [load.Rejects] that ReadOpen reads.
func OpenColumns() []string {
	return []string{"pipeline", "stream", "record_id", "pointer", "key", "stage", "reason", "record", "accepted_at", "resolved_at"}
}

// ReadOpen returns the open rejects of a pipeline in a destination, by stream.
func ReadOpen(ctx context.Context, d load.Destination, pipeline string) (map[string]*Open, error) {
	streams := map[string]*Open{}
	err := d.Scan(ctx, load.Rejects.Name, OpenColumns(), func(b arrow.RecordBatch) error {
		text := func(c, i int) string { return rowhash.Text(b.Column(c), i) }
		for i := range int(b.NumRows()) {
			if text(0, i) != pipeline || !b.Column(9).IsNull(i) {
				continue
			}
			o := streams[text(1, i)]
			if o == nil {
				o = NewOpen()
				streams[text(1, i)] = o
			}
			r := openReject{key: text(4, i), stage: text(5, i), reason: text(6, i), record: flagAt(b.Column(7), i), accepted: rowhash.Time(b.Column(8), i)}
			switch {
			case len(o.all) < maxOpenRejects:
				o.all[ID{text(2, i), text(3, i)}] = r
			case r.lost():
				o.more++
			}
		}
		return nil
	})
	return streams, err
}

// Met has the rejects of a pass. It also has the records that the pass stored although they had open rejects.
type Met struct {
	all     map[ID]openReject
	more    int64           // number of lost records that are not in the map
	watched map[string]bool // keys of records with open rejects in any destination, as PlainKey returns them
	stored  map[string]bool
}

// Add adds rejects of the pass.
func (m *Met) Add(rejects ...transform.Reject) {
	for _, r := range rejects {
		o := openReject{key: r.Key, stage: r.Stage, reason: r.Reason, record: r.Record}
		switch {
		case len(m.all) < maxOpenRejects:
			if m.all == nil {
				m.all = map[ID]openReject{}
			}
			m.all[idOf(r)] = o
		case o.lost():
			m.more++
		}
	}
}

// AsOpen returns the rejects of the pass as open rejects. It is used if a destination had no open rejects before the
// pass.
func (m *Met) AsOpen() *Open { return &Open{all: m.all, more: m.more} }

// Watch adds the records with rejects in o to the watched records. Store() then remembers which of these the pass
// stores.
func (m *Met) Watch(o *Open) {
	if len(o.all) == 0 {
		return
	}
	if m.watched == nil {
		m.watched, m.stored = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(m.watched, o.keys())
}

// Store remembers the watched records among the rows that the pass stores.
func (m *Met) Store(b transform.TableBatch) {
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

// AfterPass splits the open rejects into those that are left and those that are resolved. If the pass read every
// record, rejects that did not occur again are resolved. Otherwise only the rejects of records that the pass stored
// are resolved.
func (o *Open) AfterPass(m *Met, everything bool) (left *Open, resolved map[ID]bool) {
	left, resolved = &Open{all: map[ID]openReject{}, more: m.more}, map[ID]bool{}
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
		key, plain := PlainKey(r.key)
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

// Lost counts the records that are missing from the table.
func (o *Open) Lost() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() {
			n++
		}
	}
	return n
}

// Nameless counts the lost records whose key is unknown. The children of these records cannot be requested.
func (o *Open) Nameless() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() && r.key == "" {
			n++
		}
	}
	return n
}
