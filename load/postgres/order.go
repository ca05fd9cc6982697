package postgres

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// order is what is known of the keys that a pass has carried, where each is one
// whole number and they have only ever grown, or only ever shrunk: lists that are
// paged by key are such. No key can then come twice, and the rows of the table
// can be read beside those that arrive, in the same order. What is alike is never
// sent, and a stretch of keys is remembered in its stead.
type order struct {
	broken bool // they came in another order: [carried] has the keys
	way    int  // 1: they grow, -1: they shrink, 0: there is one at most
	begun  bool
	last   int64

	// The pass has carried each row that stands between the keys first and to,
	// except for some.
	covers    bool
	first, to int64
	except    []int64
}

// maxExcept is how many rows may be missing from the stretch before its keys
// are kept one by one, by the server. // Invariant 6
const maxExcept = 1 << 14

// maxBeside is how many rows of the table may be read beside rows that arrive
// before it would have been cheaper to look these up.
func maxBeside(rows int64) int64 { return 2*rows + 1000 }

// follow takes note of the keys that arrive.
func (m *merge) follow(t *target) error {
	next := m.order
	if next.broken || t.staged.Rows == 0 {
		return nil
	}
	if !ordered(t) || !next.take(t) {
		return m.uncover(t)
	}
	m.order = next
	return nil
}

// ordered reports whether the table's key is such that it can have an order.
func ordered(t *target) bool {
	return unique(t.Table) && len(t.Key) == 1 && schemas.SameType(load.TypeOf(t.Columns, t.Key[0]), schemas.Int64)
}

// take adds the staged keys, and reports whether they go on in order.
func (o *order) take(t *target) bool {
	for _, b := range t.staged.Batches {
		keys, ok := column(b, t.Key[0]).(*array.Int64)
		if !ok {
			return false
		}
		for _, k := range keys.Int64Values() {
			step := cmp.Compare(k, o.last)
			if o.begun && (step == 0 || step == -o.way) {
				return false
			}
			if o.begun {
				o.way = step
			}
			o.begun, o.last = true, k
		}
	}
	return true
}

func column(b arrow.RecordBatch, name string) arrow.Array {
	return b.Column(b.Schema().FieldIndices(name)[0])
}

// recognise finds the staged rows that stand in the table as they are. The
// others, t.only, are left to be compared.
func (m *merge) recognise(t *target) error {
	if m.order.broken || t.staged.Rows == 0 {
		return nil
	}
	w := &walk{staged: t.staged, key: t.Key[0], way: cmp.Or(m.order.way, 1)}
	w.open()
	first, start := w.keys[0], w.keys[0]
	beyond := "="
	if m.order.covers {
		first, start, beyond = m.order.first, m.order.to, ""
	}
	from, to, turn := ">", "<=", ""
	if w.way < 0 {
		from, to, turn = "<", ">=", " DESC"
	}
	key, limit := "t."+ident(t.Key[0]), maxBeside(t.staged.Rows)
	query := fmt.Sprintf("SELECT %s, t.%s FROM %s AS t WHERE %s AND %s AND %s ORDER BY %s%s LIMIT %d", key, ident(schemas.ColHash), m.db.place(t.Name),
		fmt.Sprintf("%s %s%s %d", key, from, beyond, start), fmt.Sprintf("%s %s %d", key, to, m.order.last), m.untouched(t)+m.ours(t), key, turn, limit)
	if err := m.s.query(m.ctx, query, w.beside); err != nil {
		return err
	}
	w.finish()
	except := slices.Concat(m.order.except, w.except)
	if w.read == limit || len(except) > maxExcept {
		return m.uncover(t)
	}
	m.order.covers, m.order.first, m.order.to, m.order.except = true, first, m.order.last, except
	m.out.Unchanged += t.staged.Rows - int64(len(w.rest))
	t.handed, t.only = int64(len(w.rest)), newOrdinals(w.rest)
	return nil
}

// untouched is the condition that a row t stands and was not written by the pass.
func (m *merge) untouched(t *target) string {
	return "t." + t.ended() + " IS NULL AND NOT coalesce(t." + ident(schemas.ColRun) + ` COLLATE "C" >= ` + literal(m.of.Run) + ", false)"
}

// stretch is the condition that a row t is one of those which the order tells the
// pass has carried.
func (m *merge) stretch(t *target) string {
	if !m.order.covers {
		return "false"
	}
	if !ordered(t) { // somebody has made the table anew, say
		m.db.lose(m.pass)
		return "false"
	}
	key := "t." + ident(t.Key[0])
	cond := fmt.Sprintf("%s BETWEEN %d AND %d", key, min(m.order.first, m.order.to), max(m.order.first, m.order.to))
	if len(m.order.except) == 0 {
		return cond
	}
	except := make([]string, len(m.order.except))
	for i, k := range m.order.except {
		except[i] = strconv.FormatInt(k, 10)
	}
	return cond + " AND " + key + " <> ALL ('{" + strings.Join(except, ",") + "}'::bigint[])"
}

// uncover gives up the order for good: from now on keys are kept one by one, and
// those of the stretch are the first.
func (m *merge) uncover(t *target) error {
	cond := m.stretch(t)
	m.order = order{broken: true}
	if cond == "false" {
		return nil
	}
	if err := m.carries(t); err != nil {
		return err
	}
	n, err := m.s.affect(m.ctx, "INSERT INTO "+m.carried.table+" SELECT t."+ident(t.Key[0])+" FROM "+m.db.place(t.Name)+" AS t WHERE "+
		m.untouched(t)+m.ours(t)+" AND "+cond+" ON CONFLICT DO NOTHING")
	m.carried.rows += n
	return err
}

// unorder gives up the order where a plan turns a key into what has another one.
func (m *merge) unorder(t *target, p load.Plan) error {
	key := slices.ContainsFunc(p.Widen, func(w load.Widening) bool { return slices.Contains(p.Table.Key, w.Column.Name) })
	if !key || load.Child(t.Columns) || !m.order.covers {
		return nil
	}
	return m.uncover(t)
}

// walk goes through staged rows beside those of the table.
type walk struct {
	staged *load.Staged
	key    string
	way    int

	batch    int
	row      int
	keys     []int64
	hashes   *array.String
	ordinals []int64

	read   int64   // rows of the table
	except []int64 // keys of those that were not staged
	rest   []int64 // ordinals of the staged rows that are not in the table as they are
}

// open goes to the first batch from here on that has rows left.
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

// done reports whether there is no staged row left.
func (w *walk) done() bool { return w.batch == len(w.staged.Batches) }

func (w *walk) step() {
	w.row++
	w.open()
}

// beside takes the next row of the table, its key and its hash.
func (w *walk) beside(v [][]byte) error {
	k, err := strconv.ParseInt(string(v[0]), 10, 64)
	if err != nil {
		return err
	}
	w.read++
	for !w.done() && cmp.Compare(w.keys[w.row], k) == -w.way {
		w.leave()
	}
	if w.done() || w.keys[w.row] != k {
		w.except = append(w.except, k)
		return nil
	}
	if v[1] == nil || w.hashes.Value(w.row) != string(v[1]) {
		w.leave()
		return nil
	}
	w.step()
	return nil
}

// leave leaves a staged row to be compared.
func (w *walk) leave() {
	w.rest = append(w.rest, w.ordinals[w.row])
	w.step()
}

func (w *walk) finish() {
	for !w.done() {
		w.leave()
	}
}
