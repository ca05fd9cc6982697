package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"
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

type rejectIndex struct {
	once    sync.Once
	err     error
	streams map[string]*openRejects
}

func (r *run) openRejects(ctx context.Context, d Destination, stream string) (*openRejects, error) {
	r.mu.Lock()
	x := r.rejectsOf[d.Name]
	if x == nil {
		x = &rejectIndex{streams: map[string]*openRejects{}}
		r.rejectsOf[d.Name] = x
	}
	r.mu.Unlock()
	x.once.Do(func() { x.err = x.read(ctx, d, r.Name) })
	if x.err != nil {
		return nil, fmt.Errorf("read open rejects: %w", x.err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x.streams[stream] == nil {
		x.streams[stream] = &openRejects{all: map[rejectID]openReject{}}
	}
	return x.streams[stream], nil
}

var openRejectColumns = []string{"pipeline", "stream", "record_id", "pointer", "key", "stage", "reason", "record", "accepted_at", "resolved_at"}

func (x *rejectIndex) read(ctx context.Context, d Destination, pipeline string) error {
	return d.Scan(ctx, load.Rejects.Name, openRejectColumns, func(b arrow.RecordBatch) error {
		text := func(c, i int) string { return rowhash.Text(b.Column(c), i) }
		for i := range int(b.NumRows()) {
			if text(0, i) != pipeline || !b.Column(9).IsNull(i) {
				continue
			}
			o := x.streams[text(1, i)]
			if o == nil {
				o = &openRejects{all: map[rejectID]openReject{}}
				x.streams[text(1, i)] = o
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

func (k *destinationRun) resolveRejects(ctx context.Context, p *pass, resolved map[rejectID]bool) error {
	if len(resolved) == 0 {
		return nil
	}
	columns := make([]string, load.Rejects.Columns.NumFields())
	for i := range columns {
		columns[i] = load.Rejects.Columns.Field(i).Name
	}
	var rows [][]any
	now := p.Now()
	err := k.dest.Scan(ctx, load.Rejects.Name, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			j := rejectAt(b, i)
			if j.pipeline == p.Name && j.stream == p.stream.Name && !j.resolved && resolved[rejectID{j.id, j.pointer}] {
				rows = append(rows, j.row(now, j.accepted))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("resolve rejects: %w", err)
	}
	if len(rows) == 0 {
		return nil
	}
	return writeOwn(ctx, k.tx, load.Rejects, rows...)
}

// UnstoredError reports that a stream was read to its end but is not complete.
type UnstoredError struct {
	Records int64 // records that no table could store and whose loss is not accepted
	All     bool  // none of the pass's records could be stored
}

// Error states how many records are missing.
func (e *UnstoredError) Error() string {
	if e.All {
		return fmt.Sprintf("none of %d records could be stored", e.Records)
	}
	if e.Records == 1 {
		return "1 record could not be stored"
	}
	return fmt.Sprintf("%d records could not be stored", e.Records)
}
