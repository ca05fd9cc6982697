package pipeline

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// PartSource is implemented by sources that can ask for some of a stream's
// parents; *extract.Client is one.
type PartSource interface {
	// PagesOf is Pages of the parents for which ask returns true. It is called
	// at most once for each, with how many there are in all; a source may read
	// the whole stream nevertheless. The pages say which were asked.
	PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, ask func(p extract.Parent, of int) bool) iter.Seq2[extract.Page, error]
}

// Ender is implemented by sources whose streams wait for a pass over their
// parent; *extract.Client is one.
type Ender interface {
	// Ended says that no pass over the stream is to come.
	Ended(stream string)
}

// ended lets the streams below s go on: it may have ended without a pass, because
// its probes were refused, or a destination is not there. Invariant 15
func (r *run) ended(s schemas.Stream) {
	if source, ok := r.Source.(Ender); ok {
		source.Ended(s.Name)
	}
}

// Where a stream does not say otherwise, every parent is asked again within so
// many passes, and each time if there are few: what the parent's own record does
// not show is worth more than those requests.
const (
	defaultReread = 10
	fewParents    = 200
)

// controls is how many parents are asked beside those that have to be. Where all
// the others are gone, they tell whether the endpoint is.
const controls = 3

// parentTracker is what a pass knows of the parents of its stream.
type parentTracker struct {
	source     PartSource
	context    []string // columns that say which parent a row is from, in the order of the tuples
	definition uint64
	reread     int
	few        int
	single     bool            // each parent has one record
	known      []*parentage    // of the pass's destinations
	spares     bool            // each of them remembers: unchanged parents are left out
	again      map[uint64]bool // ids of parents that this pass requests to confirm what the one before missed

	controls int      // parents asked that need not have been
	asked    []uint64 // the parents, by id, where others are spared; sorted at the end
	carried  []uint64 // the keys of their rows, likewise
	values   []uint64 // those of all parents, by id, where each has several
	noted    []noted  // parents of the group at hand
	records  int64    // of all parents so far
	rejected []int64  // ordinals of records that were rejected, as far as they matter
}

// noted is a parent that was asked.
type noted struct {
	tuple string
	print int64
	sure  bool  // what was read of it stands until it changes
	until int64 // ordinal behind its last record
}

// newParentTracker is nil for a stream that hangs from no other, and for one whose rows do
// not say which parent they are from or cannot be deleted one by one: there every
// parent is asked each time.
func (st *streamRun) newParentTracker() *parentTracker {
	s := st.stream
	source, ok := st.Source.(PartSource)
	if !ok || s.Parent == "" || !st.parts() {
		return nil
	}
	k := &parentTracker{source: source, definition: definition(s), reread: cmp.Or(s.Reread, defaultReread), single: single(s), again: map[uint64]bool{}}
	if s.Reread == 0 {
		k.few = fewParents
	}
	for _, p := range s.Params {
		if p.From != "" {
			k.context = append(k.context, schemas.Column("/_context/"+p.Name))
		}
	}
	for _, c := range slices.Concat(k.context, s.Key) {
		if s.Verdict(schemas.PathPointer(c)).Touched() {
			return nil
		}
	}
	return k
}

// definition is a fingerprint of what becomes of a stream's answers. Where it
// changes, the rows of unchanged parents do as well.
func definition(s schemas.Stream) uint64 {
	rules := s.Rules
	rules.MaskKey = ""
	var records []string // learned ones are found again
	if s.Stated["records"] != "" {
		records = s.Records
	}
	text, err := json.Marshal([]any{
		s.Surface, s.Method, s.Path, s.Class, s.Params, s.Key, s.Context, s.Table.Mode, s.Volatile, s.Types, rules, records,
	})
	if err != nil {
		panic(err) // texts, numbers, and lists and maps of them
	}
	h := hmac.New(sha256.New, []byte(s.Rules.MaskKey.Reveal())) // Invariant 5: what is stored tells nothing of the key
	h.Write(text)
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// skipParents decides whether parents may be left out: each destination must know what
// they gave. To none at all, nothing is missing.
func (p *pass) skipParents() {
	if p.kin != nil {
		doubtful := slices.ContainsFunc(p.kin.known, func(m *parentage) bool { return !m.trusted })
		p.kin.spares = len(p.kin.known) > 0 && !doubtful && !p.aside()
	}
}

// pages are those of the pass.
func (p *pass) pages(ctx context.Context) iter.Seq2[extract.Page, error] {
	if p.kin == nil || !p.kin.spares {
		return p.Source.Pages(ctx, p.stream, p.from)
	}
	return p.kin.source.PagesOf(ctx, p.stream, p.from, p.kin.ask)
}

// ask reports whether a parent has to be asked: it is new, it has changed, or it
// is its turn. Where destinations share the pass, each of them must remember it.
func (k *parentTracker) ask(p extract.Parent, of int) bool {
	texts := valuesOf(p.Tuple)
	if k.single && len(texts) > 1 {
		for _, t := range texts {
			k.values = append(k.values, textID(t))
		}
	}
	id, print := idOf(texts), k.print(p)
	wanted := of <= k.few
	for _, m := range k.known {
		if !m.holds(id, print) || len(k.again) == 0 && (id+uint64(m.turn))%uint64(k.reread) == 0 {
			wanted = true
		}
	}
	wanted = wanted || k.again[id]
	if !wanted && k.controls < controls {
		k.controls++
		wanted = true
	}
	if wanted {
		k.asked = append(k.asked, id)
	}
	return wanted
}

func (k *parentTracker) print(p extract.Parent) int64 { return int64(p.Print + k.definition) }

// note takes down the parents of a page.
func (k *parentTracker) note(parents []extract.Parent) {
	for _, p := range parents {
		k.records += p.Records
		k.noted = append(k.noted, noted{tuple: string(p.Tuple), print: k.print(p), sure: p.Sure, until: k.records})
		for _, m := range k.known {
			m.mark(tupleID(p.Tuple), listed)
		}
	}
}

// refuse takes down which records were rejected.
func (k *parentTracker) refuse(rejects []transform.Reject) {
	if k == nil {
		return
	}
	for _, r := range rejects {
		if r.Record {
			k.rejected = append(k.rejected, r.Ordinal)
		}
	}
}

// take hands over the parents whose rows the group at hand completes. One with a
// rejected record is not done with: the next pass may find a place for it.
// Invariant 11
func (k *parentTracker) take() []noted {
	out := k.noted
	k.noted = nil
	slices.Sort(k.rejected)
	for i := range out {
		n, _ := slices.BinarySearch(k.rejected, out[i].until)
		out[i].sure = out[i].sure && n == 0
		k.rejected = k.rejected[n:]
	}
	return out
}

// carry keeps the keys of rows that the pass brings.
func (k *parentTracker) carry(t schemas.Table, b arrow.RecordBatch) error {
	if k == nil || !k.spares {
		return nil
	}
	key, err := cellsOf(b, t.Key)
	if err != nil {
		return err
	}
	for row := range int(b.NumRows()) {
		k.carried = append(k.carried, textID(keyText(key, row)))
	}
	return nil
}

// end readies what was taken down for being looked up.
func (k *parentTracker) end() {
	slices.Sort(k.asked)
	slices.Sort(k.carried)
	slices.Sort(k.values)
}

// writeParents puts what was asked into the transaction of the rows it gave, so
// that none is remembered without them. Invariants 1, 2
func (k *destinationRun) writeParents(ctx context.Context, p *pass, g *group) error {
	now := p.Now()
	if k.left != nil && len(k.left.lost) > 0 {
		if err := writeOwn(ctx, k.tx, load.Parents, k.left.lost...); err != nil {
			return err
		}
	}
	for some := range slices.Chunk(g.parents, max(1, p.limits.batchRows)) {
		var rows [][]any
		for _, n := range some {
			var print any
			if n.sure {
				print = n.print
			}
			if len(n.tuple) <= schemas.MaxKeyBytes { // others no index can hold: they are requested each time
				rows = append(rows, []any{p.Name, p.stream.Name, n.tuple, print, p.id, now})
			}
		}
		if err := writeOwn(ctx, k.tx, load.Parents, rows...); err != nil {
			return err
		}
	}
	return nil
}
