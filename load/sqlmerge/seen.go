package sqlmerge

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// The type seen stores which records a pass has found unchanged: as a range of keys in [order], and as a table of
// carried keys. Rows that the pass has written need no entry, because their run column has the id of the pass.
type seen struct {
	order   order
	carried *carried        // nil: there is no table of carried keys yet
	lost    bool            // some carried keys are lost, for example because another pass began
	fresh   map[string]bool // for each table, whether the rows that arrived last were all new
	tables  *atomic.Int64   // number of the last table of carried keys
}

// carried is a table with the carried keys of a pass: the keys of the records that the pass has found unchanged. The
// table can use disk space, and takes part in transactions. It is a temporary table, unless the backend has kept it;
// see [PooledSession].
type carried struct {
	table string
	types []arrow.DataType // types of the columns k0, k1…
	rows  int64
	kept  bool // [PooledSession].Keep has kept the table
}

// clone returns a copy that a transaction can change.
func (s seen) clone() seen {
	s.fresh = maps.Clone(s.fresh)
	if s.carried != nil {
		c := *s.carried
		s.carried = &c
	}
	return s
}

// lose forgets the carried keys.
func (s *seen) lose() { s.lost, s.carried = true, nil }

// The method keep() is called at the end of a transaction. If the database then drops temporary tables, keep() copies
// the carried keys for the next transaction of the pass. If the parameter `last` is true, there is no next transaction,
// and keep() forgets the keys instead.
func (s *seen) keep(ctx context.Context, session Session, last bool) error {
	pooled, ok := session.(PooledSession)
	switch {
	case !ok || s.carried == nil:
		return nil
	case last:
		s.lose()
		return nil
	case s.carried.kept:
		return nil
	}
	table, err := pooled.Keep(ctx, s.carried.table, len(s.carried.types))
	s.carried.table, s.carried.kept = table, true
	return err
}

// The method again() returns an SQL condition on a row s of the status table: the pass has already written this record,
// or has found it unchanged. In the condition, lr is the column with the run of the record's stored row. The second
// result is a join that the condition needs.
func (s *seen) again(t *target) (condition, carried string) {
	condition = "coalesce(lr >= " + t.in.Literal(t.in.run) + ", 1 = 0)"
	if s.carried == nil {
		return condition, ""
	}
	return condition + " OR c.k0 IS NOT NULL", " LEFT JOIN " + s.carried.table + " AS c ON " + equal("c", "s", t.Key)
}

// add adds the keys that a query returns. The query has the given number of rows.
func (s *seen) add(sql *statements, t *target, query string, rows int64) error {
	switch {
	case rows == 0 || load.IsInternal(t.Name):
		return nil
	case s.carried == nil:
		return s.create(sql, t, query, rows)
	}
	s.carried.rows += rows
	return sql.exec("INSERT INTO " + s.carried.table + " " + query)
}

// create creates a table of carried keys from a query with the columns k0, k1… and the given number of rows.
func (s *seen) create(sql *statements, t *target, query string, rows int64) error {
	name := fmt.Sprintf("_penstock_carried_%d", s.tables.Add(1))
	c := &carried{table: t.in.Temp(name), rows: rows}
	for _, k := range t.Key {
		c.types = append(c.types, load.TypeOf(t.Columns, k))
	}
	if err := sql.temp(name, query); err != nil {
		return err
	}
	s.carried = c
	return nil
}

// cast casts the carried keys to the current types of the key columns of t.
func (s *seen) cast(sql *statements, t *target) error {
	if s.carried == nil || load.IsInternal(t.Name) {
		return nil
	}
	same := true
	columns := make([]string, len(t.Key))
	for i, k := range t.Key {
		from, to := s.carried.types[i], load.TypeOf(t.Columns, k)
		same = same && schemas.SameType(from, to)
		columns[i] = t.in.Cast(fmt.Sprintf("k%d", i), from, to) + fmt.Sprintf(" AS k%d", i)
	}
	if same {
		return nil
	}
	return s.create(sql, t, "SELECT "+strings.Join(columns, ", ")+" FROM "+s.carried.table, s.carried.rows)
}

// unseen returns a FROM item for the rows of a table (alias t), and the condition that the pass has neither
// written a row nor found it unchanged.
func (s *seen) unseen(sql *statements, t *target) (from, condition string, err error) {
	from, condition = t.place()+" AS t", t.untouched()
	if inRange := s.inRange(t); inRange != "" {
		condition += " AND NOT (" + inRange + ")"
	}
	if s.carried == nil {
		return from, condition, nil
	}
	if err := s.cast(sql, t); err != nil {
		return "", "", err
	}
	return from + " LEFT JOIN " + s.carried.table + " AS c ON " + on("c", t.Key), condition + " AND c.k0 IS NULL", s.check(sql)
}

// The method check() counts the rows of the table of carried keys. If rows are missing, as after a crash of the server,
// it records that carried keys are lost. It prepares the table for a sweep.
func (s *seen) check(sql *statements) error {
	pooled, ok := sql.Session.(PooledSession)
	if !ok {
		return nil
	}
	if s.carried.kept {
		rows := int64(0)
		if err := sql.numbers("SELECT count(*) FROM "+s.carried.table, &rows); err != nil {
			return err
		}
		s.lost = s.lost || rows != s.carried.rows // Invariant 12
	}
	return pooled.Prepare(sql.ctx, s.carried.table)
}

// track adds the arriving keys to the order. If they do not fit, it abandons the order.
func (s *seen) track(sql *statements, t *target) error {
	if s.order.broken {
		return nil
	}
	next := s.order
	if !ordered(t) || !next.add(t) {
		return s.abandonOrder(sql, t)
	}
	s.order = next
	return nil
}

// inRange returns the condition that the key of a row t is in the range of the order and not among its exceptions. It
// returns "" if there is no range.
func (s *seen) inRange(t *target) string {
	if !s.order.hasRange {
		return ""
	}
	if !ordered(t) { // for example after the table was recreated
		s.lost = true
		return ""
	}
	key := "t." + Ident(t.Key[0])
	cond := fmt.Sprintf("%s BETWEEN %d AND %d", key, min(s.order.first, s.order.to), max(s.order.first, s.order.to))
	if len(s.order.exceptions) == 0 {
		return cond
	}
	except := make([]string, len(s.order.exceptions))
	for i, k := range s.order.exceptions {
		except[i] = strconv.FormatInt(k, 10)
	}
	return cond + " AND " + key + " NOT IN (" + strings.Join(except, ", ") + ")"
}

// abandonOrder stops using the order in this pass. It stores the keys of the range in the database. From then on, each
// new key is stored there too.
func (s *seen) abandonOrder(sql *statements, t *target) error {
	inRange := s.inRange(t)
	s.order = order{broken: true}
	if inRange == "" {
		return nil
	}
	from := t.rows() + " AND " + t.untouched() + " AND " + inRange
	rows := int64(0)
	if err := sql.numbers("SELECT count(*) FROM "+from, &rows); err != nil {
		return err
	}
	return s.add(sql, t, "SELECT "+asKeys("t.", t.Key)+" FROM "+from, rows)
}

// widen abandons the order if the plan changes the type of the key, because the keys may then be sorted differently.
func (s *seen) widen(sql *statements, t *target, p load.Plan) error {
	key := slices.ContainsFunc(p.Widen, func(w load.Widening) bool { return slices.Contains(p.Table.Key, w.Column.Name) })
	if !key || load.Child(t.Columns) || !s.order.hasRange {
		return nil
	}
	return s.abandonOrder(sql, t)
}

// skipUnchanged finds the staged rows that the table already contains unchanged. The other staged rows must be
// compared. skipUnchanged returns the keys of these other rows, with the columns that a comparison needs. It returns
// nil if all staged rows must be compared.
func (s *seen) skipUnchanged(sql *statements, t *target) (*load.Staged, error) {
	if s.order.broken {
		return nil, nil
	}
	w := newWalk(t.staged, s.order.direction)
	query, begin := s.order.storedSQL(t, w.keys[0])
	stored, err := load.Select(t.Columns, []string{t.Key[0], schemas.ColHash})
	if err != nil {
		return nil, err
	}
	if err := sql.Stream(sql.ctx, query, stored, w.compare); err != nil {
		return nil, err
	}
	w.finish()
	except := slices.Concat(s.order.exceptions, w.except)
	if w.read == maxBeside(t.staged.Rows) || len(except) > maxExcept {
		return nil, s.abandonOrder(sql, t)
	}
	s.order.hasRange, s.order.first, s.order.to, s.order.exceptions = true, begin, s.order.last, except
	return w.remaining()
}
