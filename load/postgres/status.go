package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Temporary tables of a merge.
const (
	stagedKeys = "pg_temp.penstock_in"     // keys and hashes of the staged rows
	status     = "pg_temp.penstock_status" // one row per record: see below
	stagedIn   = "pg_temp.penstock_rows"   // whole rows, before they are merged into their table
)

// The status table has one row per record, with these columns:
//
//	k0, k1…  key of the record; none in a table without a key
//	h        hash of the record
//	o        ordinal of the staged row that is used
//	y        synced_at of that row
//	st       isNew, isChanged or isUnchanged
//	tid      ctid of the stored row, or of the record's last stored version
//	live     whether that row is current
//	mine     whether this pass wrote that row
//	again    whether the pass has read the record before
//	f        start of the validity of a new version
const (
	isNew       = "0"
	isChanged   = "1"
	isUnchanged = "2"
)

// temporary returns SQL that creates a temporary table, which exists until the transaction ends. It first drops a
// table of that name, if an earlier Apply has left one.
func temporary(name, columns string) string {
	return "DROP TABLE IF EXISTS " + name + "; CREATE TEMP TABLE " + name + " " + columns
}

// keyColumn returns the name of the i-th key column of a temporary table: k0, k1….
func keyColumn(i int) string { return "k" + strconv.Itoa(i) }

// keyColumns returns the names k0, k1… of the key columns of a temporary table, each after prefix.
func keyColumns(prefix string, key []string) []string {
	out := make([]string, len(key))
	for i := range key {
		out[i] = prefix + keyColumn(i)
	}
	return out
}

// on returns the condition that a row of alias and a row of t have the same key. In alias, the columns of the key are
// named k0, k1…. In t, they have the names in key.
func on(alias string, key []string) string {
	and := make([]string, len(key))
	for i, k := range key {
		and[i] = fmt.Sprintf("%s.k%d = t.%s", alias, i, ident(k))
	}
	return strings.Join(and, " AND ")
}

// equal returns the condition that a row of a and a row of b have the same key. In both, the columns of the key are
// named k0, k1….
func equal(a, b string, key []string) string {
	and := make([]string, len(key))
	for i := range key {
		and[i] = fmt.Sprintf("%s.k%d = %s.k%d", a, i, b, i)
	}
	return strings.Join(and, " AND ")
}

// copyKeys sends what a comparison needs: the keys, ordinals, hashes and times of the rows. The other columns of a
// row are sent only if the row must be written.
func (m *merge) copyKeys(t *target, keys []string) error {
	var defs []string
	var sources []source
	for i, k := range keys {
		defs = append(defs, fmt.Sprintf("k%d %s", i, t.types[k]))
		sources = append(sources, source{from: k, to: load.TypeOf(t.Columns, k)})
	}
	defs = append(defs, "o bigint", "h text", "y timestamp with time zone")
	sources = append(sources, source{schemas.ColOrdinal, schemas.Int64}, source{schemas.ColHash, schemas.Text}, source{schemas.ColSyncedAt, schemas.Timestamp})
	if err := m.s.run(m.ctx, temporary(stagedKeys, "("+strings.Join(defs, ", ")+") ON COMMIT DROP")); err != nil {
		return err
	}
	_, err := m.copy(t, "COPY "+stagedKeys, sources, t.subset, false)
	return err
}

// compare joins the staged records with their stored rows and with the carried keys.
func (m *merge) compare(t *target) error {
	if err := m.copyKeys(t, t.Key); err != nil {
		return err
	}
	return m.s.run(m.ctx, temporary(status, "ON COMMIT DROP AS "+m.compareSQL(t)))
}

// compareSQL returns the query for the status table. It finds each record by an index, in the table and among the
// carried keys. Its form makes the planner assume that there are few staged records. Otherwise the planner may not
// use the indexes.
func (m *merge) compareSQL(t *target) string {
	keys := strings.Join(keyColumns("", t.Key), ", ")
	handed := "SELECT DISTINCT ON (" + keys + ") * FROM " + stagedKeys + " ORDER BY " + keys + ", o DESC"
	again := "coalesce(t.run >= " + literal(m.of.Run) + ", false)"
	// Repeated rows that are unchanged are counted by recordCarried.
	if m.carried != nil {
		again += " OR NOT (t.live AND t.hash = s.h) AND EXISTS (SELECT FROM " + m.carried.table + " AS c WHERE " + equal("c", "s", t.Key) + ")"
	}
	return "SELECT " + strings.Join(keyColumns("s.", t.Key), ", ") + ", s.o, s.h, s.y, " +
		"CASE WHEN t.tid IS NULL THEN " + isNew + " WHEN t.live AND t.hash = s.h THEN " + isUnchanged + " ELSE " + isChanged + " END AS st, " +
		"t.tid, t.live, t.tid IS NOT NULL AND (" + again + ") AS again, coalesce(t.live AND t.run >= " + literal(m.of.Run) + ", false) AS mine, " +
		"CASE WHEN t.live AND t.run >= " + literal(m.of.Run) + " THEN t.since ELSE greatest(s.y, t.since, t.until) END AS f " +
		"FROM (" + handed + ") AS s LEFT JOIN " + m.latest(t)
}

// latest returns a FROM item t with its join condition. For each record, t has the stored row, or the last stored
// version.
func (m *merge) latest(t *target) string {
	since, until := "NULL::timestamptz", "NULL::timestamptz"
	if t.Mode == schemas.History {
		since, until = "t."+ident(schemas.ColValidFrom), "t."+ident(schemas.ColValidTo)
	}
	columns := "t.ctid AS tid, t." + t.ended() + " IS NULL AS live, t." + ident(schemas.ColHash) + " AS hash, t." +
		ident(schemas.ColRun) + ` COLLATE "C" AS run, ` + since + " AS since, " + until + " AS until"
	if unique(t.Table) {
		keys := make([]string, len(t.Key))
		for i, k := range t.Key {
			keys[i] = fmt.Sprintf(", t.%s AS k%d", ident(k), i)
		}
		return "(SELECT " + columns + strings.Join(keys, "") + " FROM " + m.db.place(t.Name) + " AS t WHERE true" + m.ownRowsSQL(t) + ") AS t ON " + equal("s", "t", t.Key)
	}
	order := "run DESC, t." + ident(schemas.ColSyncedAt) + " DESC, tid DESC"
	if t.Mode == schemas.History {
		order = "live DESC, " + order
	}
	return "LATERAL (SELECT " + columns + " FROM " + m.db.place(t.Name) + " AS t WHERE " + on("s", t.Key) + m.ownRowsSQL(t) + " ORDER BY " + order + " LIMIT 1) AS t ON true"
}

// counts counts the records of a status table.
type counts struct {
	staged, fresh, changed, unchanged int64
	// replaced: versions of this pass to replace; superseded: versions to end; shifted: new versions whose validity
	// does not begin at their synced_at
	replaced, superseded, shifted int64
}

func (m *merge) count(t *target) (counts, error) {
	n := counts{staged: t.toCompare}
	var records, again, unchangedAgain, revived int64
	count := func(where string) string { return "count(*) FILTER (WHERE " + where + ")" }
	err := m.s.numbers(m.ctx, "SELECT "+strings.Join([]string{
		"count(*)", count("st = " + isNew), count("st = " + isChanged), count("st = " + isUnchanged),
		count("again"), count("again AND st = " + isUnchanged), count("st = " + isChanged + " AND NOT live AND NOT again"),
		count("st = " + isChanged + " AND mine"), count("st = " + isChanged + " AND live AND NOT mine"), count("st < " + isUnchanged + " AND f <> y"),
	}, ", ")+" FROM "+status,
		&records, &n.fresh, &n.changed, &n.unchanged, &again, &unchangedAgain, &revived, &n.replaced, &n.superseded, &n.shifted)
	if err != nil {
		return n, err
	}
	repeated, err := m.recordCarried(t, n.unchanged-unchangedAgain)
	if err != nil {
		return n, err
	}
	again, unchangedAgain = again+repeated, unchangedAgain+repeated
	o := m.out
	o.Deduplicated += n.staged - records + again
	o.Inserted += n.fresh
	o.Written += n.fresh + n.changed - (again - unchangedAgain)
	o.Unchanged += n.unchanged - unchangedAgain
	o.Revived += revived
	return n, nil
}

// selectOrdinals returns the ordinals of the records that meet a condition. n is the number of these records. The
// result is nil if they are all staged rows.
func (m *merge) selectOrdinals(t *target, where string, n int64) (*ordinals, error) {
	if n == t.staged.Rows {
		return nil, nil
	}
	all := make([]int64, 0, n)
	err := m.s.query(m.ctx, "SELECT o FROM "+status+" WHERE "+where, func(v [][]byte) error {
		o, err := strconv.ParseInt(string(v[0]), 10, 64)
		all = append(all, o)
		return err
	})
	if err == nil && int64(len(all)) != n {
		err = fmt.Errorf("%d records to write, expected %d", len(all), n)
	}
	return newOrdinals(all), err
}

// recordCarried records the keys of unchanged rows. unchanged is the number of these rows. It returns how many of the
// keys were already recorded.
func (m *merge) recordCarried(t *target, unchanged int64) (repeated int64, err error) {
	if unchanged == 0 {
		return 0, nil
	}
	if err := m.createCarried(t); err != nil {
		return 0, err
	}
	keys := strings.Join(keyColumns("", t.Key), ", ")
	kept, err := m.s.affect(m.ctx, "INSERT INTO "+m.carried.table+" SELECT "+keys+" FROM "+status+" WHERE st = "+isUnchanged+" AND NOT again ON CONFLICT DO NOTHING")
	m.carried.rows += kept
	return unchanged - kept, err
}

// createCarried creates the temporary table of carried keys if the pass has no table yet.
func (m *merge) createCarried(t *target) error {
	if m.carried != nil {
		return nil
	}
	defs := make([]string, len(t.Key))
	c := &carried{table: temporaryCarried}
	for i, k := range t.Key {
		defs[i] = fmt.Sprintf("k%d %s", i, t.types[k])
		c.types = append(c.types, load.TypeOf(t.Columns, k))
	}
	keys := strings.Join(keyColumns("", t.Key), ", ")
	if err := m.s.run(m.ctx, temporary(c.table, "("+strings.Join(defs, ", ")+", PRIMARY KEY ("+keys+")) ON COMMIT DROP")); err != nil {
		return err
	}
	m.carried = c
	return nil
}

// castCarried changes the types of the carried keys to the current types of the key of t.
func (m *merge) castCarried(t *target) error {
	if m.carried == nil {
		return nil
	}
	types := slices.Clone(m.carried.types)
	for i, k := range t.Key {
		from, to := m.carried.types[i], load.TypeOf(t.Columns, k)
		if schemas.SameType(from, to) {
			continue
		}
		column := keyColumn(i)
		err := m.s.run(m.ctx, "ALTER TABLE "+m.carried.table+" ALTER COLUMN "+column+" TYPE "+t.types[k]+" USING "+m.db.cast(column, from, to))
		if err != nil {
			return err
		}
		types[i] = to
	}
	m.carried.types = types
	return nil
}
