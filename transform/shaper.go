package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Shaper is the stage behind a [Mapper]: it filters, masks, drops and renames
// what the mapper has made of the records, and holds it against the stream's
// contract. It works on whole columns, and does nothing where the stream's rules
// ask for nothing. It belongs to its mapper's goroutine.
//
// A row's hash covers what is stored: it does not depend on what is dropped, and
// on what is masked only by what the mask makes of it. So a change of the rules
// changes the hashes of the rows it concerns, and nothing else does.
type Shaper struct {
	m          *Mapper
	settled    bool
	conditions []condition
	plans      map[string]*plan // by table
	filtered   int64
	rejected   int64

	tracks bool
	left   []TableBatch
}

// NewShaper makes the stage behind m, before m reads its first record. The
// rules are those of m's stream, the tables that a contract holds records
// against are those m was made with. settled says that the destination has
// tables of this pipeline already, so that the stream's own would be a new one.
// The error is one of the rules.
func NewShaper(m *Mapper, settled bool) (*Shaper, error) {
	if m.rulings.err != nil {
		return nil, fmt.Errorf("shape %s: %w", m.stream.Name, m.rulings.err)
	}
	s := &Shaper{m: m, settled: settled, plans: map[string]*plan{}}
	for _, c := range m.stream.Rules.Filter {
		s.conditions = append(s.conditions, newCondition(c))
	}
	return s, nil
}

// Shape does so with the batches of m's last Flush, before the next Append. It
// takes them over: they are handed on or released. What it returns is for the
// destination; rejects are those of the contract, beside the mapper's own.
//
// With an error nothing is returned, and the stream has to stop before anything
// of these batches is written: a [*ContractError], or one of rules that cannot
// be kept.
func (s *Shaper) Shape(batches []TableBatch) ([]TableBatch, []Reject, error) {
	if s.idle(batches) {
		return batches, nil, nil
	}
	w := s.lay(batches)
	defer w.release()
	if err := w.filter(); err != nil {
		return nil, nil, err
	}
	if s.tracks {
		w.leave()
	}
	if err := w.hold(); err != nil {
		return nil, nil, err
	}
	rejects := w.rejects()
	w.prune()
	w.mask()
	w.realign()
	out, err := w.batches()
	if err != nil {
		return nil, nil, err
	}
	s.filtered += w.filtered
	s.rejected += w.refused
	return out, indexed(rejects), nil
}

// Filtered is the number of records so far that the filter has left out. They
// count as fetched from the source, and as nothing else.
func (s *Shaper) Filtered() int64 { return s.filtered }

// Rejected is the number of records so far that the contract has left out,
// which are beside those of [Mapper.Rejected].
func (s *Shaper) Rejected() int64 { return s.rejected }

// ContractError is what a frozen contract does not allow. Its text has names
// and types, and no values.
type ContractError struct {
	Stream string
	Diff   []string // one line a difference
}

// Error lists the differences.
func (e *ContractError) Error() string {
	return fmt.Sprintf("schema of %s is frozen: %s", e.Stream, strings.Join(e.Diff, "; "))
}

// idle reports whether there is nothing to do with batches like these.
func (s *Shaper) idle(batches []TableBatch) bool {
	if len(batches) == 0 {
		return true
	}
	idle := len(s.conditions) == 0
	for _, b := range batches {
		idle = s.planFor(b.Table).idle() && idle
	}
	return idle
}

// work is one Shape under way.
type work struct {
	*Shaper
	sheets []*openBatch // the root table's first
	root   *openBatch

	gone     []bool // rows of the root table that are left out
	filtered int64
	refused  int64
	noted    []note
	sums     []sum // to be added to the hashes of the root table's rows; nil: nothing
	keyed    bool  // key values have changed
}

// openBatch is one batch under way.
type openBatch struct {
	*plan
	table   schemas.Table
	batch   arrow.RecordBatch
	types   []arrow.DataType
	names   []string
	arrays  []arrow.Array // of the batch, or in their place; nil: dropped
	made    []arrow.Array // of arrays, those to release
	rows    int
	rootRow []int32 // whose record's row each row belongs to
	gone    []bool  // rows of a child table that are left out though their record is not

	// Of a child table: where its rows hang from.
	parent, place *column
}

// lay spreads batches out to be worked on.
func (s *Shaper) lay(batches []TableBatch) *work {
	w := &work{Shaper: s}
	for _, b := range batches {
		w.sheets = append(w.sheets, &openBatch{
			plan: s.planFor(b.Table), table: b.Table, batch: b.Batch, rows: int(b.Batch.NumRows()),
			types: slices.Clone(s.planFor(b.Table).types), arrays: slices.Clone(b.Batch.Columns()),
		})
	}
	w.root = w.sheets[0]
	w.gone = make([]bool, w.root.rows)
	w.align()
	return w
}

// align finds the root table's row of each row, by the record's ordinal, which
// never falls.
func (w *work) align() {
	ordinals := w.root.own(schemas.ColOrdinal).ints
	for _, t := range w.sheets[1:] {
		t.rootRow = make([]int32, t.rows)
		t.parent, t.place = t.own(schemas.ColParent), t.own(schemas.ColIndex)
		at := 0
		for row, o := range t.own(schemas.ColOrdinal).ints[:t.rows] {
			for ordinals[at] < o {
				at++
			}
			t.rootRow[row] = int32(at)
		}
	}
}

// put sets a column to an array that the sheet is to release.
func (t *openBatch) put(i int, a arrow.Array) {
	t.arrays[i] = a
	t.made = append(t.made, a)
}

// view reads a column.
func (w *work) view(t *openBatch, i int) *column {
	return viewOf(t.arrays[i], t.types[i], w.m.mem)
}

// own reads one of penstock's own columns.
func (t *openBatch) own(name string) *column {
	i := t.index[name]
	return viewOf(t.arrays[i], t.types[i], nil)
}

func (w *work) release() {
	for _, t := range w.sheets {
		t.batch.Release()
		for _, a := range t.made {
			a.Release()
		}
	}
}

// recordOf is the root table's row that a row of t belongs to.
func (t *openBatch) recordOf(row int) int {
	if t.rootRow == nil {
		return row
	}
	return int(t.rootRow[row])
}
