package sqlmerge

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// order describes the keys that a pass has read. It can be used if the table has a primary key of one integer column,
// and the keys have only increased or only decreased. That is so for lists that are paged by key.
//
// Then no key can occur twice, and penstock can read the rows of the table in the order in which the records arrive.
// It need not send unchanged rows to the database. And it remembers a range of keys instead of each key.
type order struct {
	broken    bool // the keys are not in order, so [carried] has them
	direction int  // 1: keys increase; -1: keys decrease; 0: only one key or none so far
	begun     bool
	last      int64

	// If hasRange is true, the pass has seen every current row whose key is from first to to: it has written the row or
	// found it unchanged. The keys in exceptions are not included.
	hasRange   bool
	first, to  int64
	exceptions []int64
}

// maxExcept is the greatest number of exceptions. If there are more, each key is stored on the server instead.
// Invariant 6
const maxExcept = 1 << 14

// maxBeside returns how many rows of the table are read in order, at most, for a number of arriving rows. If the
// table has more rows in the range, it is cheaper to look up each arriving row.
func maxBeside(rows int64) int64 { return 2*rows + 1000 }

// trackOrder adds the arriving keys to the order. If they do not fit, it abandons the order.
func (m *merge) trackOrder(t *target) error {
	next := m.order
	if next.broken {
		return nil
	}
	if !ordered(t) || !next.add(t) {
		return m.abandonOrder(t)
	}
	m.order = next
	return nil
}

// ordered reports whether the table has a key that can be in order.
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

// skipUnchanged finds the staged rows that the table already has unchanged. It returns the keys of the other rows, which
// must be compared, with the columns that a comparison needs. The result is nil if these are all rows.
func (m *merge) skipUnchanged(t *target) (*load.Staged, error) {
	if m.order.broken {
		return nil, nil
	}
	w := &walk{staged: t.staged, key: t.Key[0], direction: cmp.Or(m.order.direction, 1)}
	w.open()
	first, start := w.keys[0], w.keys[0]
	beyond := "="
	if m.order.hasRange {
		first, start, beyond = m.order.first, m.order.to, ""
	}
	from, to, turn := ">", "<=", ""
	if w.direction < 0 {
		from, to, turn = "<", ">=", " DESC"
	}
	key, limit := "t."+Ident(t.Key[0]), maxBeside(t.staged.Rows)
	query := fmt.Sprintf("SELECT %s, t.%s FROM %s AND %s AND %s AND %s ORDER BY %s%s LIMIT %d", key, schemas.ColHash, m.ownRows(t),
		fmt.Sprintf("%s %s%s %d", key, from, beyond, start), fmt.Sprintf("%s %s %d", key, to, m.order.last), m.untouchedSQL(t), key, turn, limit)
	stored, err := load.Select(t.Columns, []string{t.Key[0], schemas.ColHash})
	if err != nil {
		return nil, err
	}
	if err := m.s.Stream(m.ctx, query, stored, w.compare); err != nil {
		return nil, err
	}
	w.finish()
	except := slices.Concat(m.order.exceptions, w.except)
	if w.read == limit || len(except) > maxExcept {
		return nil, m.abandonOrder(t)
	}
	m.order.hasRange, m.order.first, m.order.to, m.order.exceptions = true, first, m.order.last, except
	m.out.Unchanged += t.staged.Rows - int64(len(w.rest))
	return w.remaining(t)
}

// untouchedSQL returns the condition that a row t is current, and that the pass has not written it.
func (m *merge) untouchedSQL(t *target) string {
	return t.currentSQL("t.") + " AND NOT " + m.writtenSQL("t.")
}

// rangeSQL returns the condition that the key of a row t is in the range of the order and not among its exceptions. It
// returns "" if there is no range.
func (m *merge) rangeSQL(t *target) string {
	if !m.order.hasRange {
		return ""
	}
	if !ordered(t) { // for example after the table was recreated
		m.lost = true
		return ""
	}
	key := "t." + Ident(t.Key[0])
	cond := fmt.Sprintf("%s BETWEEN %d AND %d", key, min(m.order.first, m.order.to), max(m.order.first, m.order.to))
	if len(m.order.exceptions) == 0 {
		return cond
	}
	except := make([]string, len(m.order.exceptions))
	for i, k := range m.order.exceptions {
		except[i] = strconv.FormatInt(k, 10)
	}
	return cond + " AND " + key + " NOT IN (" + strings.Join(except, ", ") + ")"
}

// abandonOrder stops using the order in this pass. From now on, each key is stored in the database, and so are the keys
// of the range.
func (m *merge) abandonOrder(t *target) error {
	cond := m.rangeSQL(t)
	m.order = order{broken: true}
	if cond == "" {
		return nil
	}
	from := m.ownRows(t) + " AND " + m.untouchedSQL(t) + " AND " + cond
	rows := int64(0)
	if err := numbers(m.ctx, m.s, "SELECT count(*) FROM "+from, &rows); err != nil {
		return err
	}
	return m.addCarried(t, "SELECT "+asKeys("t.", t.Key)+" FROM "+from, rows)
}

// checkOrder abandons the order if the plan changes the type of the key, because the keys may then be sorted
// differently.
func (m *merge) checkOrder(t *target, p load.Plan) error {
	key := slices.ContainsFunc(p.Widen, func(w load.Widening) bool { return slices.Contains(p.Table.Key, w.Column.Name) })
	if !key || load.Child(t.Columns) || !m.order.hasRange {
		return nil
	}
	return m.abandonOrder(t)
}

// walk compares staged rows with rows of the table. Both are in the order of the key.
type walk struct {
	staged    *load.Staged
	key       string
	direction int

	batch    int
	row      int
	keys     []int64
	hashes   *array.String
	ordinals []int64

	read   int64   // number of rows of the table
	except []int64 // keys of rows of the table that were not staged
	rest   []compared
}

// compared is what a comparison needs of a staged row.
type compared struct {
	key, ordinal int64
	hash         string
}

// open moves to the next batch if the current one has no rows left.
func (w *walk) open() {
	for ; w.batch < len(w.staged.Batches); w.batch++ {
		b := w.staged.Batches[w.batch]
		if int64(w.row) == b.NumRows() {
			w.row = 0
			continue
		}
		if w.row == 0 {
			w.keys = column(b, w.key).(*array.Int64).Int64Values()
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

// remaining returns the rows that must be compared later.
func (w *walk) remaining(t *target) (*load.Staged, error) {
	schema := arrow.NewSchema([]arrow.Field{
		schemas.Field(w.key, schemas.Int64, ""), schemas.Field(schemas.ColOrdinal, schemas.Int64, ""), schemas.Field(schemas.ColHash, schemas.Text, ""),
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
	s := &load.Staged{Table: schemas.Table{Name: t.Name, Key: t.Key}}
	return s, s.Add(rows)
}
