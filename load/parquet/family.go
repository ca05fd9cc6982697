package parquet

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
)

// merge merges staged rows into the next generation.
type merge struct {
	*builder
	seen *seenRows
	out  *load.Outcome
}

// family is a root table with its child tables, their staged rows, and the edits that these cause in existing rows.
type family struct {
	t        *table
	staged   *staged
	supplied *batchIndex
	edits    map[int64]*segmentEdits

	children []*childRows
}

type childRows struct {
	t      *table
	staged *staged // nil: no rows were staged
}

type segmentEdits struct {
	seg   *segment
	edits []edit
}

type edit struct {
	row  uint32
	kind kind
	by   int32 // the index of the staged row that causes the edit; -1: none
	at   int64 // time until which the row is valid, in microseconds

	moves bool // the kind is end or markDead, and the row moves to another file
}

type kind uint8

const (
	logOnly  kind = iota // no change; the row is only logged
	replace              // the staged row takes the place of the existing row
	remove               // the row and its child rows are removed
	end                  // the row ends, because another version follows
	markDead             // the row gets a tombstone
)

func pick(columns []arrow.Array, places []int) []arrow.Array {
	out := make([]arrow.Array, len(places))
	for i, p := range places {
		out[i] = columns[p]
	}
	return out
}

func (f *family) edit(s *segment, e edit) {
	g := f.edits[s.ID]
	if g == nil {
		g = &segmentEdits{seg: s}
		f.edits[s.ID] = g
	}
	g.edits = append(g.edits, e)
}

func (g *segmentEdits) sort() {
	slices.SortFunc(g.edits, func(a, b edit) int { return int(int64(a.row) - int64(b.row)) })
}

type segmentPlan struct {
	part string
	rows []int32
	refs map[string][]ref
	seg  *segment
}

type ref struct{ batch, row int32 }

// batchIndex indexes the staged rows of one table by their fingerprints.
type batchIndex struct {
	rows   []suppliedRow
	slots  []int32 // hash table; a slot has 1 plus the index of the first row with a fingerprint; 0: empty
	shift  int
	filter []uint64 // a bitmap of the highest bits of all fingerprints
	open   int

	ints  [2]int64
	texts [2]string
	kind  byte // which of the fields above has the bounds of the keys: 'i' for ints, 't' for texts, 0 for none
}
