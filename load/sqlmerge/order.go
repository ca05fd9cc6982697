package sqlmerge

import (
	"cmp"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// order describes the keys that a pass has read. It can be used if the table has a primary key of one integer column,
// and the keys have only increased or only decreased. In a list that is paged by key, the keys arrive in such an order.
//
// Then no key can occur twice, and penstock can read the rows of the table in the order in which the records arrive.
// It need not send unchanged rows to the database. And it remembers a range of keys instead of each key.
type order struct {
	broken    bool // the keys are not in order, so they are stored in the table of [carried] keys
	direction int  // 1: keys increase; -1: keys decrease; 0: only one key or none so far
	begun     bool
	last      int64

	// If hasRange is true, there is a range of keys. It begins with the key in the field `first` and ends with the key in
	// the field `to`. Each current row whose key is in the range, but not in exceptions, was written by the pass or found
	// unchanged.
	hasRange   bool
	first, to  int64
	exceptions []int64
}

// maxExcept is the greatest number of exceptions. If there are more, each key is stored in the database instead.
// Invariant 6
const maxExcept = 1 << 14

// maxBeside returns the greatest number of stored rows that are worth reading in order, for the given number of
// arriving rows. If the table has more rows in the range, it is cheaper to look up each arriving row.
func maxBeside(rows int64) int64 { return 2*rows + 1000 }

// The function ordered() reports whether the table has a key for which [order] can be used.
func ordered(t *target) bool {
	return OneRowPerKey(t.Table) && len(t.Key) == 1 && schemas.SameType(load.TypeOf(t.Columns, t.Key[0]), schemas.Int64)
}

// add adds the staged keys. It reports whether they are integers that continue the order.
func (o *order) add(t *target) bool {
	for _, b := range t.staged.Batches {
		keys, ok := column(b, t.Key[0]).(*array.Int64)
		if !ok {
			return false
		}
		for _, k := range keys.Int64Values() {
			step := cmp.Compare(k, o.last)
			if o.begun && (step == 0 || step == -o.direction) {
				return false
			}
			if o.begun {
				o.direction = step
			}
			o.begun, o.last = true, k
		}
	}
	return true
}

func column(b arrow.RecordBatch, name string) arrow.Array {
	return b.Column(b.Schema().FieldIndices(name)[0])
}

// storedSQL returns a query for the keys and hashes of stored rows, in the order of the key. The caller runs the query
// and compares the stored rows with the arriving rows. The result `begin` is the first key that is compared. The
// parameter `arriving` is the first arriving key.
func (o *order) storedSQL(t *target, arriving int64) (query string, begin int64) {
	begin, start, from, to, turn := arriving, arriving, ">", "<=", ""
	if o.direction < 0 {
		from, to, turn = "<", ">=", " DESC"
	}
	if o.hasRange {
		begin, start = o.first, o.to
	} else {
		from += "="
	}
	key := "t." + Ident(t.Key[0])
	inOrder := fmt.Sprintf("%s %s %d AND %s %s %d", key, from, start, key, to, o.last)
	return fmt.Sprintf("SELECT %s, t.%s FROM %s AND %s AND %s ORDER BY %s%s LIMIT %d",
		key, schemas.ColHash, t.rows(), inOrder, t.untouched(), key, turn, maxBeside(t.staged.Rows)), begin
}

// walk compares staged rows with rows of the table. Both are in the order of the key.
type walk struct {
	staged    *load.Staged
	direction int

	batch    int
	row      int
	keys     []int64
	hashes   *array.String
	ordinals []int64

	read   int64   // number of rows of the table that were compared
	except []int64 // keys that the table has, but that were not staged
	rest   []compared
}

// compared has the values of a staged row that a comparison needs.
type compared struct {
	key, ordinal int64
	hash         string
}

func newWalk(staged *load.Staged, direction int) *walk {
	w := &walk{staged: staged, direction: cmp.Or(direction, 1)}
	w.open()
	return w
}

// The method open() moves to the next batch if the current one has no rows left.
func (w *walk) open() {
	for ; w.batch < len(w.staged.Batches); w.batch++ {
		b := w.staged.Batches[w.batch]
		if int64(w.row) == b.NumRows() {
			w.row = 0
			continue
		}
		if w.row == 0 {
			w.keys = column(b, w.staged.Key[0]).(*array.Int64).Int64Values()
			w.hashes = column(b, schemas.ColHash).(*array.String)
			w.ordinals = column(b, schemas.ColOrdinal).(*array.Int64).Int64Values()
		}
		return
	}
}

// done reports whether all staged rows were handled.
func (w *walk) done() bool { return w.batch == len(w.staged.Batches) }

func (w *walk) step() {
	w.row++
	w.open()
}

// compare compares the next rows of the table. The batch b has their keys and hashes.
func (w *walk) compare(b arrow.RecordBatch) error {
	keys, hashes := b.Column(0).(*array.Int64).Int64Values(), b.Column(1).(*array.String)
	for i, k := range keys {
		w.read++
		for !w.done() && cmp.Compare(w.keys[w.row], k) == -w.direction {
			w.keepForCompare()
		}
		switch {
		case w.done() || w.keys[w.row] != k:
			w.except = append(w.except, k)
		case hashes.IsNull(i) || w.hashes.Value(w.row) != hashes.Value(i):
			w.keepForCompare()
		default:
			w.step()
		}
	}
	return nil
}

// keepForCompare notes that the current staged row must be compared later.
func (w *walk) keepForCompare() {
	w.rest = append(w.rest, compared{w.keys[w.row], w.ordinals[w.row], w.hashes.Value(w.row)})
	w.step()
}

func (w *walk) finish() {
	for !w.done() {
		w.keepForCompare()
	}
}

// The method remaining() returns the rows that must be compared later.
func (w *walk) remaining() (*load.Staged, error) {
	key := w.staged.Key
	schema := arrow.NewSchema([]arrow.Field{
		schemas.Field(key[0], schemas.Int64, ""), schemas.Field(schemas.ColOrdinal, schemas.Int64, ""), schemas.Field(schemas.ColHash, schemas.Text, ""),
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for _, c := range w.rest {
		b.Field(0).(*array.Int64Builder).Append(c.key)
		b.Field(1).(*array.Int64Builder).Append(c.ordinal)
		b.Field(2).(*array.StringBuilder).Append(c.hash)
	}
	rows := b.NewRecordBatch()
	defer rows.Release()
	s := &load.Staged{Table: schemas.Table{Name: w.staged.Name, Key: key}}
	return s, s.Add(rows)
}
