// Package parents lets a pass over a child stream skip parents. A parent is skipped if its record has not changed and
// the destinations have the rows of its children. At the end of such a pass, the package finds the rows that are
// missing.
package parents

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// A parent's record does not show every change of its children. So each parent is requested at least once in
// defaultReread passes. If there are at most fewParents parents, every pass requests all of them.
const (
	defaultReread = 10
	fewParents    = 200
)

// controls is the number of unchanged parents that are requested as a test. Their answers show whether the source
// reports even unchanged parents as gone.
const controls = 3

// Tracker follows the parents of one pass, for all destinations of the pass.
type Tracker struct {
	context    []string // columns that identify a row's parent, in the order of the tuples
	definition uint64
	reread     int
	few        int
	single     bool            // each parent has one record
	known      []*Stored       // stored parents, by destination of the pass
	skips      bool            // every destination has stored its parents, so unchanged parents are skipped
	again      map[uint64]bool // ids of parents whose rows were missing in the previous pass; this pass requests these parents in any case

	controls  int
	requested []uint64 // ids of the requested parents, for a pass that skips parents; sorted at the end
	rowKeys   []uint64 // hashes of the keys of the requested parents' rows; sorted at the end
	values    []uint64 // hashes of the values of all parents' tuples, if a tuple has several values
	noted     []Parent
	records   int64
	rejected  []int64 // ordinals of rejected records whose parents Take() has not returned yet
}

// Parent is one parent that a pass has requested.
type Parent struct {
	tuple string
	print int64 // fingerprint of the parent's record and of the stream's definition
	sure  bool  // the rows stay valid until the parent's record changes
	until int64 // the ordinal after the parent's last record
}

// NewTracker returns nil if the rows of the stream do not identify their parent. Without a tracker, every parent is
// requested in each pass.
func NewTracker(s schemas.Stream) *Tracker {
	k := &Tracker{definition: Definition(s), reread: cmp.Or(s.RereadPasses, defaultReread), single: s.Class.Single(), again: map[uint64]bool{}}
	if s.RereadPasses == 0 {
		k.few = fewParents
	}
	k.context = Columns(s)
	for _, c := range slices.Concat(k.context, s.Key) {
		if s.Verdict(schemas.PathPointer(c)).Touched() {
			return nil
		}
	}
	return k
}

// Columns returns the columns of a child stream that identify a row's parent.
func Columns(s schemas.Stream) (columns []string) {
	for _, p := range s.Params {
		if p.From != "" {
			columns = append(columns, schemas.Column("/_context/"+p.Name))
		}
	}
	return columns
}

// Expected returns how many of a stream's parents a pass requests if no parent has changed. The second parameter is
// the number of all parents.
func Expected(s schemas.Stream, of int64) int64 {
	k := NewTracker(s)
	if k == nil || of <= int64(k.few) {
		return of
	}
	return min(of, of/int64(k.reread)+controls)
}

// Know adds the stored parents of a destination, and the parents that the pass must request even if they are
// unchanged.
func (k *Tracker) Know(m *Stored, again map[uint64]bool) {
	k.known = append(k.known, m)
	maps.Copy(k.again, again)
}

// Skip lets the pass skip unchanged parents if every destination has their rows.
func (k *Tracker) Skip() {
	doubtful := slices.ContainsFunc(k.known, func(m *Stored) bool { return !m.trusted })
	k.skips = len(k.known) > 0 && !doubtful
}

// Skips reports whether the pass skips unchanged parents.
func (k *Tracker) Skips() bool { return k != nil && k.skips }

// Definition returns a fingerprint of how the records of a stream become rows.
func Definition(s schemas.Stream) uint64 {
	rules := s.Rules
	rules.MaskKey = ""
	var records []string // the configured paths of the records; empty if probes have found the paths
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

// Needs reports whether the pass must request the parent. The second parameter is the number of all parents.
func (k *Tracker) Needs(p extract.Parent, of int) bool {
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

func (k *Tracker) print(p extract.Parent) int64 { return int64(p.Fingerprint + k.definition) }

// Note remembers the parents whose records a page contains. Pages must be passed in the order of the list.
func (k *Tracker) Note(parents []extract.Parent) {
	for _, p := range parents {
		k.records += p.Records
		k.noted = append(k.noted, Parent{tuple: string(p.Tuple), print: k.print(p), sure: p.Complete, until: k.records})
		for _, m := range k.known {
			m.mark(tupleID(p.Tuple), listed)
		}
	}
}

// Refuse remembers rejected records.
func (k *Tracker) Refuse(rejects []transform.Reject) {
	if k == nil {
		return
	}
	for _, r := range rejects {
		if r.Record {
			k.rejected = append(k.rejected, r.Ordinal)
		}
	}
}

// Take returns the parents whose rows are complete with the current commit group. If a record of a parent was rejected,
// the parent's field sure is false, so that the next pass requests the parent again. // Invariant 11
func (k *Tracker) Take() []Parent {
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

// AddRows remembers the keys of the rows of requested parents.
func (k *Tracker) AddRows(t schemas.Table, b arrow.RecordBatch) error {
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

// End ends the reading.
func (k *Tracker) End() {
	slices.Sort(k.requested)
	slices.Sort(k.rowKeys)
	slices.Sort(k.values)
}
