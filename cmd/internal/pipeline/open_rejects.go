package pipeline

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// maxOpenRejects is how many rejects of one stream are remembered during a run;
// those beyond are only counted. // Invariant 6
const maxOpenRejects = 100_000

// rejectID tells a reject apart from others of its stream.
type rejectID struct{ record, pointer string }

func rejectIDOf(r transform.Reject) rejectID { return rejectID{r.ID, r.Pointer} }

// openReject is what a run remembers of a reject that is not resolved.
type openReject struct {
	key, stage, reason string
	record             bool // the record was left out, not only a value
	accepted           time.Time
}

// lost reports whether the record is missing from the table although nobody wants
// it to be. A contract leaves out what the user wishes it to.
func (o openReject) lost() bool {
	return o.record && o.accepted.IsZero() && o.stage != transform.StageContract
}

// openRejects are the rejects of one stream in one destination that are not
// resolved. They belong to the stream's goroutine.
type openRejects struct {
	all  map[rejectID]openReject
	more int64 // lost records that are not in all
}

// accepted is when a person accepted the loss that r stands for. It holds for as
// long as the record is rejected for the same reason.
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

// keys are the plain keys of the records that have rejects.
func (o *openRejects) keys() map[string]bool {
	found := map[string]bool{}
	for _, r := range o.all {
		if key, ok := plainKey(r.key); ok {
			found[key] = true
		}
	}
	return found
}

// rejectIndex is what one destination has of open rejects, read once in a run.
type rejectIndex struct {
	once    sync.Once
	err     error
	streams map[string]*openRejects
}

// openRejects are those of a stream in a destination as the run has found them.
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
		text := func(c, i int) string { return cellText(b.Column(c), i) }
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

// metRejects are the rejects of a pass, and the records that it stored although
// they have open ones.
type metRejects struct {
	all     map[rejectID]openReject
	more    int64           // lost records that are not in all
	watched map[string]bool // plain keys of records with open rejects, in any destination
	stored  map[string]bool // those of watched that the pass has stored
}

// add takes note of rejects.
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

// watch makes m look out for the records with these rejects.
func (m *metRejects) watch(o *openRejects) {
	if len(o.all) == 0 {
		return
	}
	if m.watched == nil {
		m.watched, m.stored = map[string]bool{}, map[string]bool{}
	}
	maps.Copy(m.watched, o.keys())
}

// store takes note of rows of the stream's table.
func (m *metRejects) store(b transform.TableBatch) {
	if len(m.watched) == 0 || len(b.Table.Key) != 1 {
		return
	}
	keys, err := cellsOf(b.Batch, b.Table.Key)
	if err != nil {
		return
	}
	for i := range int(b.Batch.NumRows()) {
		if key := cellText(keys[0], i); m.watched[key] {
			m.stored[key] = true
		}
	}
}

// standing is what is open in a destination after a pass: what it met, and of
// what was open before all but resolved. A pass that has gone over every record
// resolves what it did not meet again, any other one what it stored.
func (o *openRejects) standing(m *metRejects, everything bool) (left *openRejects, resolved map[rejectID]bool) {
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

// lost is how many records nobody has accepted the loss of.
func (o *openRejects) lost() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() {
			n++
		}
	}
	return n
}

// nameless is how many of the lost records have no key: their children are not read.
func (o *openRejects) nameless() int64 {
	n := o.more
	for _, r := range o.all {
		if r.lost() && r.key == "" {
			n++
		}
	}
	return n
}

// resolveRejects writes that rejects of the stream are none any more.
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

// UnstoredError is why a stream is not complete although it was read to its end.
type UnstoredError struct {
	Records int64 // that no table could take and nobody has accepted the loss of
	All     bool  // of the pass at hand
}

// Error says how many records are missing.
func (e *UnstoredError) Error() string {
	if e.All {
		return fmt.Sprintf("none of %d records could be stored", e.Records)
	}
	if e.Records == 1 {
		return "1 record could not be stored"
	}
	return fmt.Sprintf("%d records could not be stored", e.Records)
}
