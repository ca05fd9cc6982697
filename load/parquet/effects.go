package parquet

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type effects struct {
	m *merge
	f *family

	batches    []affected
	duplicates map[uint64][]edit // edits of records without a key; the map's key is a number made from the row's hash
}

type affected struct {
	keys  []arrow.Array
	edits []edit
}

func (x *effects) collect(ctx context.Context, first int64, columns []arrow.Array, edits []edit) error {
	if err := x.m.logEdits(x.f, first, columns, edits); err != nil {
		return err
	}
	if len(x.f.children) == 0 {
		return nil
	}
	var a affected
	var refs []ref
	for _, e := range edits {
		if e.kind != logOnly {
			a.edits = append(a.edits, e)
			refs = append(refs, ref{row: int32(int64(e.row) - first)})
		}
	}
	if len(refs) == 0 {
		return nil
	}
	places, err := x.f.t.places(x.f.t.identity())
	if err != nil {
		return err
	}
	if a.keys, err = gather(ctx, pick(columns, places), refs); err != nil {
		return err
	}
	x.batches = append(x.batches, a)
	return nil
}

// needs returns the columns that the method collect() uses; nil: all columns.
func (x *effects) needs() []string {
	switch {
	case x.m.spec.Log:
		return nil
	case len(x.f.children) == 0:
		return []string{}
	}
	return x.f.t.identity()
}

// deadIn returns how many of the rows that the edits remove have a tombstone or have ended.
func (f *family) deadIn(edits []edit) (n int64) {
	for _, e := range edits {
		if e.kind == remove && e.by >= 0 && f.supplied.rows[e.by].have&deadMark != 0 {
			n++
		}
	}
	return n
}

func (x *effects) release() {
	for _, a := range x.batches {
		release(a.keys)
	}
}

func (x *effects) childEdits(ctx context.Context, c *table, old *file) ([]edit, error) {
	if len(x.batches) == 0 {
		return nil, nil
	}
	if len(x.f.t.Key) == 0 {
		return x.duplicateEdits(ctx, c, old)
	}
	types, link := x.f.t.keyTypes(), c.typeOf(load.RootKeyColumn(c.schema))
	causes := map[fingerprint]edit{}
	for _, a := range x.batches {
		prints, of := links(a.keys, types, link, len(a.edits))
		for i, p := range prints {
			causes[p] = a.edits[of[i]]
		}
	}
	var out []edit
	columns := []string{load.RootKeyColumn(c.schema), schemas.ColRun, c.ended()}
	err := old.read(ctx, c, columns, func(first int64, b []arrow.Array, rows int) error {
		run, _ := b[1].(*array.String)
		for i, p := range linkPrints(b[0], link, types, rows) {
			cause, ok := causes[p]
			switch {
			case !ok, c.Mode == schemas.History && b[2].IsValid(i), c.Mode == schemas.Append && run.Value(i) < x.m.spec.Run:
				continue // the row belongs to another record or another version
			}
			out = append(out, cause.forChild(first, i))
		}
		return nil
	})
	return out, err
}

// forChild returns the edit of a child row, if e is the edit of its root row. If the root row is replaced, the child
// row is removed.
func (e edit) forChild(first int64, i int) edit {
	out := edit{row: uint32(first) + uint32(i), kind: e.kind, by: -1, at: e.at, moves: e.moves}
	if e.kind == replace {
		out.kind = remove
	}
	return out
}

// duplicateEdits does the same as childEdits for records without a key. Records with the same hash are equal, so it
// does not matter which of them are edited. Only their number matters. duplicateEdits edits the records whose links
// come last in sort order.
func (x *effects) duplicateEdits(ctx context.Context, c *table, old *file) ([]edit, error) {
	if x.duplicates == nil {
		x.duplicates = map[uint64][]edit{}
		for _, a := range x.batches {
			for i, e := range a.edits {
				mark := markAt(a.keys, i)
				x.duplicates[mark] = append(x.duplicates[mark], e)
			}
		}
	}
	rows, err := x.duplicateChildren(ctx, c, old)
	if err != nil {
		return nil, err
	}
	var out []edit
	for mark, all := range rows {
		twins := slices.SortedFunc(maps.Keys(all), func(a, b duplicateRow) int {
			return cmp.Or(cmp.Compare(b.link, a.link), cmp.Compare(a.count, b.count))
		})
		for i, t := range twins[:min(len(twins), len(x.duplicates[mark]))] {
			for _, row := range all[t] {
				out = append(out, x.duplicates[mark][i].forChild(int64(row), 0))
			}
		}
	}
	slices.SortFunc(out, func(a, b edit) int { return cmp.Compare(a.row, b.row) })
	return out, nil
}

// duplicateRow identifies one of several records with the same hash, by the link of its child rows. Such a link
// consists of the hash and the number of the record in its pass. So two records from different passes can have the same
// link. The field count distinguishes them: it is 0 for the first record and 1 for the second.
type duplicateRow struct {
	link  string
	count int
}

func (x *effects) duplicateChildren(ctx context.Context, c *table, old *file) (map[uint64]map[duplicateRow][]uint32, error) {
	type place struct {
		mark         uint64
		link, parent string
		index        int64
	}
	out, seen := map[uint64]map[duplicateRow][]uint32{}, map[place]int{}
	columns := []string{schemas.ColHash, load.RootKeyColumn(c.schema), schemas.ColParent, schemas.ColIndex, c.ended()}
	err := old.read(ctx, c, columns, func(first int64, b []arrow.Array, rows int) error {
		link, _ := b[1].(*array.String)
		parent, _ := b[2].(*array.String)
		index, _ := b[3].(*array.Int64)
		for i := range rows {
			mark := markAt(b[:1], i)
			if x.duplicates[mark] == nil || c.Mode == schemas.History && b[4].IsValid(i) {
				continue
			}
			p := place{mark, strings.Clone(link.Value(i)), strings.Clone(parent.Value(i)), index.Value(i)}
			t := duplicateRow{p.link, seen[p]}
			seen[p]++
			if out[mark] == nil {
				out[mark] = map[duplicateRow][]uint32{}
			}
			out[mark][t] = append(out[mark][t], uint32(first)+uint32(i))
		}
		return nil
	})
	return out, err
}
