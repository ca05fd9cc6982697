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

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// PartSource is implemented by sources that can request only some of a stream's parents, such as
// *extract.Client.
type PartSource interface {
	// PagesOf is like Pages, but requests only the parents for which ask returns true. It calls ask at most once per
	// parent; the argument of is the number of all parents. A source may also request every parent. Each page names the
	// parents that were requested.
	PagesOf(ctx context.Context, s schemas.Stream, from state.Cursor, ask func(p extract.Parent, of int) bool) iter.Seq2[extract.Page, error]
}

// PassListener is implemented by sources that let a child stream wait for a pass over its parent, such as
// *extract.Client.
type PassListener interface {
	// NoMorePasses reports to the source that no further pass over the stream follows.
	NoMorePasses(stream string)
}

// NoMorePasses reports to the source that s is done. Its child streams can then continue even if s made no pass.
// Invariant 15
func (c *Config) NoMorePasses(s schemas.Stream) {
	if source, ok := c.Source.(PassListener); ok {
		source.NoMorePasses(s.Name)
	}
}

// A parent's record does not show every change of its children. So each parent is requested at least once in
// defaultReread passes. If there are at most fewParents, every pass requests all of them.
const (
	defaultReread = 10
	fewParents    = 200
)

// controls is the number of unchanged parents that are requested as a test: they show whether the source reports
// every parent as gone.
const controls = 3

type parentTracker struct {
	source     PartSource
	context    []string // columns that identify a row's parent, in the order of the tuples
	definition uint64
	reread     int
	few        int
	single     bool            // each parent has one record
	known      []*parentage    // stored parents, by destination of the pass
	skips      bool            // every destination knows its parents, so unchanged parents are skipped
	again      map[uint64]bool // parents, by id, that this pass requests to confirm that the rows missing from the previous pass are gone

	controls  int
	requested []uint64 // ids of requested parents, if others are skipped; sorted at the end
	rowKeys   []uint64 // hashes of the keys of the requested parents' rows; sorted at the end
	values    []uint64 // hashes of the values of all parents' tuples, if a tuple has several values
	noted     []noted
	records   int64
	rejected  []int64 // ordinals of rejected records of parents that the method take has not returned yet
}

type noted struct {
	tuple string
	print int64 // fingerprint of the parent's record and of the stream's definition
	sure  bool  // the rows stay valid until the parent's record changes
	until int64 // ordinal after its last record
}

// newParentTracker returns nil if the stream has no parent, or if its rows do not identify their parent. Without a
// tracker, every parent is requested in each pass.
func (st *streamRun) newParentTracker() *parentTracker {
	s := st.stream
	source, ok := st.Source.(PartSource)
	if !ok || s.Parent == "" || !st.parts() {
		return nil
	}
	k := &parentTracker{source: source, definition: definition(s), reread: cmp.Or(s.RereadPasses, defaultReread), single: s.Class.Single(), again: map[uint64]bool{}}
	if s.RereadPasses == 0 {
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

func definition(s schemas.Stream) uint64 {
	rules := s.Rules
	rules.MaskKey = ""
	var records []string // learned paths are found again
	if s.Stated["records"] != "" {
		records = s.Records
	}
	text, err := json.Marshal([]any{
		s.Surface, s.Method, s.Path, s.Class, s.Params, s.Key, s.Context, s.Table.Mode, s.Volatile, s.Types, rules, records,
	})
	if err != nil {
		panic(err)
	}
	h := hmac.New(sha256.New, []byte(s.Rules.MaskKey.Reveal())) // Invariant 5: the stored hash reveals nothing about the key
	h.Write(text)
	return binary.LittleEndian.Uint64(h.Sum(nil))
}

// skipParents allows the pass to skip unchanged parents only if every destination has their rows.
func (p *pass) skipParents() {
	if p.parents != nil {
		doubtful := slices.ContainsFunc(p.parents.known, func(m *parentage) bool { return !m.trusted })
		p.parents.skips = len(p.parents.known) > 0 && !doubtful && !p.partialBackfill()
	}
}

func (p *pass) pages(ctx context.Context) iter.Seq2[extract.Page, error] {
	if p.parents == nil || !p.parents.skips {
		return p.Source.Pages(ctx, p.stream, p.from)
	}
	return p.parents.source.PagesOf(ctx, p.stream, p.from, p.parents.needsRequest)
}

func (k *parentTracker) needsRequest(p extract.Parent, of int) bool {
	texts := valuesOf(p.Tuple)
	if k.single && len(texts) > 1 {
		for _, t := range texts {
			k.values = append(k.values, textID(t))
		}
	}
	id, print := idOf(texts), k.print(p)
	wanted := of <= k.few
	for _, m := range k.known {
		if !m.holds(id, print) || len(k.again) == 0 && (id+uint64(m.passes))%uint64(k.reread) == 0 {
			wanted = true
		}
	}
	wanted = wanted || k.again[id]
	if !wanted && k.controls < controls {
		k.controls++
		wanted = true
	}
	if wanted {
		k.requested = append(k.requested, id)
	}
	return wanted
}

func (k *parentTracker) print(p extract.Parent) int64 { return int64(p.Fingerprint + k.definition) }

func (k *parentTracker) note(parents []extract.Parent) {
	for _, p := range parents {
		k.records += p.Records
		k.noted = append(k.noted, noted{tuple: string(p.Tuple), print: k.print(p), sure: p.Complete, until: k.records})
		for _, m := range k.known {
			m.mark(tupleID(p.Tuple), listed)
		}
	}
}

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

// take returns the parents whose rows are complete with the current group. It leaves out parents with a rejected
// record, so that the next pass requests them again. // Invariant 11
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

func (k *parentTracker) addRows(t schemas.Table, b arrow.RecordBatch) error {
	if k == nil || !k.skips {
		return nil
	}
	key, err := rowhash.Columns(b, t.Key)
	if err != nil {
		return err
	}
	for row := range int(b.NumRows()) {
		k.rowKeys = append(k.rowKeys, textID(rowhash.KeyText(key, row)))
	}
	return nil
}

func (k *parentTracker) end() {
	slices.Sort(k.requested)
	slices.Sort(k.rowKeys)
	slices.Sort(k.values)
}

// writeParents writes the parents in the transaction of their rows, so that no parent is stored without its rows.
// Invariants 1, 2
func (k *destinationRun) writeParents(ctx context.Context, p *pass, g *group) error {
	now := p.Now()
	if k.left != nil && len(k.left.lost) > 0 {
		if err := load.WriteRows(ctx, k.tx, load.Parents, k.left.lost...); err != nil {
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
			if len(n.tuple) <= schemas.MaxKeyBytes { // a longer tuple fits no index, so its parent is requested in each pass
				rows = append(rows, []any{p.Name, p.stream.Name, n.tuple, print, p.id, now})
			}
		}
		if err := load.WriteRows(ctx, k.tx, load.Parents, rows...); err != nil {
			return err
		}
	}
	return nil
}
