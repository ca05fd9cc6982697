package deltas

import (
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

type delta struct {
	*Deltas
	q         *queue
	began     time.Time
	requested []*entity
	records   [][]byte
	entities  []*entity
	gone      []*entity
	dead      []abandoned
	again     []*entity
	described []*entity                   // records that are not requested: the values in their events are written to the rows
	overlays  map[string]*overlay.Overlay // overlays of the running pass, by destination; nil if no pass is running
	answers   map[*entity][]byte
	reread    []string // parents that the next run must request again; each parent is a JSON array of the values in its tuple
	through   int64
	refresh   int64
}

type abandoned struct {
	e   *entity
	why error
}

type recordAnswer struct {
	record   []byte
	requests int
	err      error
}

type mapped struct {
	batches []transform.TableBatch
	rejects []transform.Reject
}

func (m *mapped) release() {
	batch.ReleaseTables(m.batches)
}

// stamp returns the run id for the rows of this commit. The id is greater than the ids of all earlier passes. So a
// resumed pass treats these rows like rows that it has read itself. // Invariants 8, 12
func (x *delta) stamp(positions []*destinationPosition) string {
	if x.overlays != nil {
		return overlay.Stamp(x.overlays)
	}
	id := runid.New(x.conf.Now())
	for _, p := range positions {
		for _, last := range []string{p.pos.Pass, p.pos.TouchedBy, p.events.Run} {
			id = runid.Later(id, last[:min(len(last), len(id))])
		}
	}
	return id
}

func (x *delta) mapSome(stamp string, known []schemas.Table, records [][]byte) (out *mapped, err error) {
	if len(records) == 0 {
		return &mapped{}, nil
	}
	err = pipeline.Guard(x.q.stream.Name, func() error {
		m := transform.NewMapper(x.q.stream, transform.Stamp{Run: stamp, SyncedAt: x.began, Via: "webhook"}, known)
		defer m.Close()
		shaper, err := transform.NewShaper(m, len(known) > 0)
		if err != nil {
			return err
		}
		page := []byte{'['}
		for i, r := range records {
			if i > 0 {
				page = append(page, ',')
			}
			page = append(page, r...)
		}
		out = &mapped{}
		for _, err := range m.AppendParts(slices.All([][]byte{append(page, ']')})) {
			if err != nil {
				return err
			}
			batches, rejects := m.Flush()
			batches, kept, err := shaper.Shape(batches)
			if err != nil {
				return err
			}
			out.batches, out.rejects = append(out.batches, batches...), append(append(out.rejects, rejects...), kept...)
			for _, b := range batches {
				batch.Share(b.Batch)
			}
		}
		return nil
	})
	if err != nil && out != nil {
		batch.ReleaseTables(out.batches)
		out = nil
	}
	return out, err
}

// passOf returns the pass of a commit. It has no checks that hold rows back: an event would be tried again and again,
// and then given up. The configuration refuses such checks for streams with events.
func (x *delta) passOf(dest, stamp string) load.Pass {
	p := x.conf.OncePass(x.q.stream, stamp)
	if l := x.overlays[dest]; l != nil {
		p = l.Pass
	}
	p.Hold = nil
	return p
}

func (d *Deltas) values(q *queue, key string) map[string][]byte {
	return map[string][]byte{q.detail.Params[0].Name: []byte(key)}
}
