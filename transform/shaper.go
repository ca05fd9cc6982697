package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Shaper applies the rules of a stream to the batches of a [Mapper]. It filters records; masks, drops and renames
// columns; and enforces the contract. A Shaper works on whole columns, and does nothing if the stream has no rules.
// Only the goroutine of its mapper may use it.
//
// The hash of a row covers only what is stored. It ignores dropped values, and uses the masked form of masked values.
// So new rules change only the hashes of the rows that they affect.
type Shaper struct {
	m          *Mapper
	hasTables  bool
	conditions []condition
	plans      map[string]*plan // plans by the name of the table
	filtered   int64
	rejected   int64

	trackLeft bool
	left      []TableBatch
}

// NewShaper returns a Shaper for the batches of m. It must be called before m reads its first record. The Shaper
// applies the rules of m's stream. The contract applies to differences between the batches and the tables that
// [NewMapper] was given. The last argument says whether the destination already has tables of this pipeline. If it has,
// a root table that is missing in the destination counts as new. NewShaper returns an error for invalid rules.
func NewShaper(m *Mapper, settled bool) (*Shaper, error) {
	if m.tables.rules.err != nil {
		return nil, fmt.Errorf("shape %s: %w", m.tables.stream.Name, m.tables.rules.err)
	}
	s := &Shaper{m: m, hasTables: settled, plans: map[string]*plan{}}
	for _, c := range m.tables.stream.Rules.Filter {
		s.conditions = append(s.conditions, newCondition(c))
	}
	return s, nil
}

// Shape applies the rules to the batches that the last Flush of m has returned. It must be called before the next
// Append. It takes ownership of the batches. It returns the batches for the destination, which the caller releases, and
// the rejects that the contract causes. These do not include the rejects of the mapper.
//
// If Shape returns an error, the stream must stop before any of these batches is written. The error is a
// [*ContractError], or says why the rules cannot be applied.
func (s *Shaper) Shape(batches []TableBatch) ([]TableBatch, []Reject, error) {
	if s.idle(batches) {
		return batches, nil, nil
	}
	w := s.newWork(batches)
	defer w.release()
	if err := w.filter(); err != nil {
		return nil, nil, err
	}
	if s.trackLeft {
		w.collectLeft()
	}
	if err := w.checkContract(); err != nil {
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

// Filtered returns how many records the filter has excluded so far. They count as fetched, but they do not count as
// stored or rejected.
func (s *Shaper) Filtered() int64 { return s.filtered }

// Rejected returns how many records the contract has excluded so far. [Mapper.Rejected] does not include them.
func (s *Shaper) Rejected() int64 { return s.rejected }

// ContractError reports differences that a contract with the policy freeze does not allow. Its text contains names and
// types, but no values.
type ContractError struct {
	Stream string
	Diff   []string // one line per difference
}

// Error returns one line with all differences.
func (e *ContractError) Error() string {
	return fmt.Sprintf("schema of %s is frozen: %s", e.Stream, strings.Join(e.Diff, "; "))
}

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

type work struct {
	*Shaper
	tables []*openBatch
	root   *openBatch

	excluded    []bool // for each row of the root table: the row is excluded
	filtered    int64
	refused     int64
	notes       []pendingReject
	sums        []sum // hashes to add to the hashes of the root table's rows; nil: none
	keysChanged bool  // a mask or the contract has changed values of keys
}

type openBatch struct {
	*plan
	table    schemas.Table
	batch    arrow.RecordBatch
	types    []arrow.DataType
	names    []string
	arrays   []arrow.Array // columns of the batch or their replacements; nil: the column is dropped
	made     []arrow.Array // the replacements; release() releases them
	rows     int
	rootRow  []int32 // for each row, the row of its record in the root table
	excluded []bool  // for each row of a child table, whether this row is excluded by itself, without its record

	// The columns that relate the rows of a child table to their parents.
	parent, place *vector
}

func (s *Shaper) newWork(batches []TableBatch) *work {
	w := &work{Shaper: s}
	for _, b := range batches {
		w.tables = append(w.tables, &openBatch{
			plan: s.planFor(b.Table), table: b.Table, batch: b.Batch, rows: int(b.Batch.NumRows()),
			types: slices.Clone(s.planFor(b.Table).types), arrays: slices.Clone(b.Batch.Columns()),
		})
	}
	w.root = w.tables[0]
	w.excluded = make([]bool, w.root.rows)
	w.align()
	return w
}

// align finds the row of the root table for each child row. It compares the ordinals of the records, which ascend.
func (w *work) align() {
	ordinals := w.root.own(schemas.ColOrdinal).ints
	for _, t := range w.tables[1:] {
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

func (t *openBatch) put(i int, a arrow.Array) {
	t.arrays[i] = a
	t.made = append(t.made, a)
}

func (w *work) view(t *openBatch, i int) *vector {
	return viewOf(t.arrays[i], t.types[i], w.m.tables.mem)
}

func (t *openBatch) own(name string) *vector {
	i := t.index[name]
	return viewOf(t.arrays[i], t.types[i], nil)
}

func (w *work) release() {
	for _, t := range w.tables {
		t.batch.Release()
		for _, a := range t.made {
			a.Release()
		}
	}
}

func (t *openBatch) recordOf(row int) int {
	if t.rootRow == nil {
		return row
	}
	return int(t.rootRow[row])
}
