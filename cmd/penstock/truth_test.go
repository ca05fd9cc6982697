//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "github.com/duckdb/duckdb-go/v2" // DuckDB itself reads the tables, not our code
	"github.com/stretchr/testify/require"
)

// warehouse is what an analyst sees: tables that DuckDB reads without our code. Tables of other destinations are copied
// into DuckDB's memory.
type warehouse struct {
	db      *sql.DB
	tables  map[string][]column  // columns by table, without JSON pointers; they are read only once, because listing them is slow
	sources map[[2]string]source // by table and column, from _penstock_schema
}

// source is the field of the source from which a column's values come.
type source struct {
	pointer string
	typ     string
}

func openWarehouse(t *testing.T, path string) *warehouse {
	t.Helper()
	db, err := sql.Open("duckdb", path+"?access_mode=READ_ONLY")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("SET TimeZone = 'UTC'")
	require.NoError(t, err)
	return newWarehouse(t, db)
}

// newWarehouse reads the columns from DuckDB's catalog, and the source field of each column from _penstock_schema.
func newWarehouse(t *testing.T, db *sql.DB) *warehouse {
	t.Helper()
	w := &warehouse{db: db, tables: map[string][]column{}, sources: map[[2]string]source{}}
	columns, err := db.Query(`SELECT table_name, column_name, data_type FROM duckdb_columns()
		WHERE (database_oid, table_oid) IN (SELECT database_oid, table_oid FROM duckdb_tables()) ORDER BY table_name, column_index`)
	require.NoError(t, err)
	defer columns.Close()
	for columns.Next() {
		var table string
		var c column
		require.NoError(t, columns.Scan(&table, &c.name, &c.typ))
		w.tables[table] = append(w.tables[table], c)
	}
	require.NoError(t, columns.Err())
	if !w.exists("_penstock_schema") { // nothing was committed yet
		return w
	}
	rows, err := db.Query(`SELECT "table", "column", source, to_type FROM _penstock_schema
		WHERE "column" IS NOT NULL AND "column" <> '' ORDER BY "at", to_type`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var table, column string
		var pointer, typ sql.NullString
		require.NoError(t, rows.Scan(&table, &column, &pointer, &typ))
		s := w.sources[[2]string{table, column}]
		if pointer.String != "" {
			s.pointer = pointer.String
		}
		if typ.String != "" {
			s.typ = strings.ToLower(typ.String)
		}
		w.sources[[2]string{table, column}] = s
	}
	require.NoError(t, rows.Err())
	return w
}

func (w *warehouse) count(t *testing.T, query string) int64 {
	t.Helper()
	var n int64
	require.NoError(t, w.db.QueryRow(query).Scan(&n), query)
	return n
}

func (w *warehouse) exists(table string) bool { return len(w.tables[table]) > 0 }

// facts has the cells of one row as texts, without nulls. The key of a cell is the JSON pointer of the source field.
// Equal values have equal texts.
type facts map[string]string

func (f facts) String() string {
	lines := make([]string, 0, len(f))
	for p, v := range f {
		lines = append(lines, p+" = "+v)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

type column struct{ name, typ, pointer string }

// columns returns those columns of a table whose values come from the source.
func (w *warehouse) columns(t *testing.T, table string) []column {
	t.Helper()
	var cs []column
	for _, c := range w.tables[table] {
		if strings.HasPrefix(c.name, "_penstock_") {
			continue
		}
		s := w.sources[[2]string{table, c.name}]
		require.NotEmpty(t, s.pointer, "%s.%s: _penstock_schema does not name the column's source field", table, c.name)
		c.pointer = s.pointer
		if s.typ == "json" {
			c.typ = "JSON"
		}
		cs = append(cs, c)
	}
	return cs
}

// cast returns SQL that converts the column to text without any loss.
func (c column) cast() string {
	q := quote(c.name)
	switch {
	case strings.HasSuffix(c.typ, "[]"):
		return fmt.Sprintf("CAST(to_json(CAST(%s AS VARCHAR[])) AS VARCHAR)", q)
	case c.typ == "TIMESTAMP WITH TIME ZONE":
		return fmt.Sprintf("CAST(epoch_us(%s) AS VARCHAR)", q)
	}
	return fmt.Sprintf("CAST(%s AS VARCHAR)", q)
}

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// rows returns the rows of a table that are not deleted, and for each row the value of the SQL expression in the
// argument `key`.
func (w *warehouse) rows(t *testing.T, table, key string) ([]facts, []string) {
	t.Helper()
	cs := w.columns(t, table)
	exprs := []string{key}
	for _, c := range cs {
		exprs = append(exprs, c.cast())
	}
	rs, err := w.db.Query(fmt.Sprintf("SELECT %s FROM %s WHERE _penstock_deleted_at IS NULL", strings.Join(exprs, ", "), quote(table)))
	require.NoError(t, err, table)
	defer rs.Close()
	var all []facts
	var keys []string
	cells := make([]sql.NullString, len(cs)+1)
	into := make([]any, len(cells))
	for i := range cells {
		into[i] = &cells[i]
	}
	for rs.Next() {
		require.NoError(t, rs.Scan(into...))
		f := facts{}
		for i, c := range cs {
			if v := cells[i+1]; v.Valid {
				if s := c.stored(t, v.String); s != "" {
					f[c.pointer] = s
				}
			}
		}
		all, keys = append(all, f), append(keys, cells[0].String)
	}
	require.NoError(t, rs.Err())
	return all, keys
}

// stored() returns the text that [facts] has for a stored cell: equal values have equal texts.
func (c column) stored(t *testing.T, v string) string {
	t.Helper()
	switch {
	case c.typ == "JSON":
		return "json " + canonicalJSON(t, []byte(v))
	case strings.HasSuffix(c.typ, "[]"):
		var items []*string
		require.NoError(t, json.Unmarshal([]byte(v), &items))
		if len(items) == 0 {
			return ""
		}
		parts := make([]string, len(items))
		for i, it := range items {
			parts[i] = "null"
			if it != nil {
				parts[i] = column{typ: strings.TrimSuffix(c.typ, "[]")}.stored(t, *it)
			}
		}
		return "[" + strings.Join(parts, ",") + "]"
	case strings.HasPrefix(c.typ, "DECIMAL"), c.typ == "BIGINT", c.typ == "DOUBLE":
		r, ok := new(big.Rat).SetString(v)
		require.True(t, ok, v)
		return "number " + r.RatString()
	case c.typ == "TIMESTAMP WITH TIME ZONE":
		us, err := strconv.ParseInt(v, 10, 64)
		require.NoError(t, err)
		return "time " + time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
	}
	return strings.ToLower(c.typ) + " " + v
}

// wanted() returns the text of a correctly stored value, in the form in which [facts] returns texts. The source has
// sent the value v, and the column c stores it.
func (c column) wanted(t *testing.T, v any, raw string) string {
	t.Helper()
	if c.typ == "JSON" {
		return "json " + canonicalJSON(t, []byte(raw))
	}
	if items, ok := v.([]any); ok {
		if len(items) == 0 {
			return ""
		}
		parts := make([]string, len(items))
		for i, it := range items {
			parts[i] = "null"
			if it != nil {
				parts[i] = column{typ: strings.TrimSuffix(c.typ, "[]")}.wanted(t, it, rawOf(t, it))
			}
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	text := raw
	if s, ok := v.(string); ok {
		text = s
	}
	switch {
	case c.typ == "BOOLEAN":
		return "boolean " + map[string]string{"1": "true", "0": "false", "true": "true", "false": "false"}[text]
	case strings.HasPrefix(c.typ, "DECIMAL"), c.typ == "BIGINT", c.typ == "DOUBLE":
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			return "no number: " + text
		}
		return "number " + r.RatString()
	case c.typ == "TIMESTAMP WITH TIME ZONE":
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return "no time: " + text
		}
		return "time " + at.UTC().Format(time.RFC3339Nano)
	}
	return strings.ToLower(c.typ) + " " + text
}

// truth compares a stream's table and its child tables with the records of the source and their nested data, value by
// value.
func (w *warehouse) truth(t *testing.T, stream, table string, records []json.RawMessage) (differences []string) {
	t.Helper()
	if !w.exists(table) {
		if len(records) == 0 {
			return nil
		}
		return []string{fmt.Sprintf("%s: no table %s for %d records", stream, table, len(records))}
	}
	e := expected{w: w, t: t, cols: map[string]map[string]column{}, want: map[string][]string{}}
	for _, r := range records {
		e.record(table, "", decode(t, r))
	}
	for _, name := range e.tables(table) {
		got, _ := w.rows(t, name, "NULL")
		lines := make([]string, len(got))
		for i, f := range got {
			lines[i] = f.String()
		}
		differences = append(differences, difference(name, e.want[name], lines)...)
	}
	return append(differences, e.lost...)
}

// expected collects the rows that each table of a stream should have.
type expected struct {
	w    *warehouse
	t    *testing.T
	cols map[string]map[string]column
	want map[string][]string
	lost []string
}

// tables returns the names of a root table and its child tables.
func (e *expected) tables(root string) []string {
	names := []string{root}
	for name := range e.w.tables {
		if strings.HasPrefix(name, root+"__") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (e *expected) columns(table string) map[string]column {
	if m, ok := e.cols[table]; ok {
		return m
	}
	m := map[string]column{}
	if e.w.exists(table) {
		for _, c := range e.w.columns(e.t, table) {
			m[c.pointer+kindOf(c.typ)] = c
		}
	}
	e.cols[table] = m
	return m
}

// kindOf distinguishes columns with the same pointer. One field may have a column for single values and another
// for arrays.
func kindOf(typ string) string {
	if strings.HasSuffix(typ, "[]") {
		return " list"
	}
	return ""
}

func (e *expected) record(table, field string, v any) {
	f := facts{}
	e.walk(table, table, "", v, f)
	e.want[table] = append(e.want[table], f.String())
}

func (e *expected) walk(root, table, pointer string, v any, f facts) {
	cols := e.columns(table)
	c, ok := cols[pointer]
	if l, list := cols[pointer+" list"]; list {
		if items, array := v.([]any); array && scalars(items) {
			c, ok = l, true
		}
	}
	if ok && v != nil {
		_, object := v.(member)
		items, array := v.([]any)
		if c.typ == "JSON" || !object && (!array || scalars(items) && len(items) > 0) {
			if s := c.wanted(e.t, v, rawOf(e.t, v)); s != "" {
				f[pointer] = s
			}
			return
		}
	}
	switch v := v.(type) {
	case member:
		for _, m := range v {
			e.walk(root, table, pointer+"/"+escapePointer(m.name), m.value, f)
		}
	case []any:
		e.children(table, pointer, v)
	case nil:
	default:
		e.lost = append(e.lost, fmt.Sprintf("%s%s: no column has the value %v", table, pointer, v))
	}
}

func (e *expected) children(table, pointer string, items []any) {
	if len(items) == 0 {
		return
	}
	child, ok := e.childTable(table, pointer)
	if !ok {
		e.lost = append(e.lost, fmt.Sprintf("%s%s: no child table has its %d elements", table, pointer, len(items)))
		return
	}
	for _, it := range items {
		e.record(child, "", it)
	}
}

func (e *expected) childTable(table, pointer string) (string, bool) {
	want := table + "__" + strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", "__")
	for _, n := range e.tables(table) {
		if strings.EqualFold(strings.ReplaceAll(n, "_", ""), strings.ReplaceAll(want, "_", "")) {
			return n, true
		}
	}
	return "", false
}

func scalars(items []any) bool {
	for _, it := range items {
		switch it.(type) {
		case member, []any:
			return false
		}
	}
	return true
}

// difference describes in a few lines how two multisets of rows differ.
func difference(table string, want, got []string) []string {
	count := map[string]int{}
	for _, s := range want {
		count[s]++
	}
	for _, s := range got {
		count[s]--
	}
	var missing, extra []string
	for s, n := range count {
		for range n {
			missing = append(missing, s)
		}
		for range -n {
			extra = append(extra, s)
		}
	}
	if len(missing)+len(extra) == 0 {
		return nil
	}
	slices.Sort(missing)
	slices.Sort(extra)
	out := []string{fmt.Sprintf("%s: want %d rows, got %d: %d missing, %d extra", table, len(want), len(got), len(missing), len(extra))}
	for i := range min(1, max(len(missing), len(extra))) {
		if i < len(missing) {
			out = append(out, "  missing:\n"+missing[i])
		}
		if i < len(extra) {
			out = append(out, "  extra:\n"+extra[i])
		}
	}
	return out
}

// member is the list of the members of a JSON object, in their original order and with duplicates.
type member []struct {
	name  string
	value any
}

func decode(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decodeValue(d)
	require.NoError(t, err)
	return v
}

func decodeValue(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, nil
	}
	var obj member
	items := []any{}
	for d.More() {
		if delim == '[' {
			v, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			items = append(items, v)
			continue
		}
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		obj = append(obj, struct {
			name  string
			value any
		}{name.(string), v})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if delim == '[' {
		return items, nil
	}
	if obj == nil {
		obj = member{}
	}
	return obj, nil
}

// rawOf encodes v as JSON, with all digits of numbers.
func rawOf(t *testing.T, v any) string {
	t.Helper()
	switch v := v.(type) {
	case member:
		parts := make([]string, len(v))
		for i, m := range v {
			parts[i] = strconv.Quote(m.name) + ":" + rawOf(t, m.value)
			if b, err := json.Marshal(m.name); err == nil {
				parts[i] = string(b) + ":" + rawOf(t, m.value)
			}
		}
		return "{" + strings.Join(parts, ",") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, it := range v {
			parts[i] = rawOf(t, it)
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// canonicalJSON returns raw with sorted keys and without white space.
func canonicalJSON(t *testing.T, raw []byte) string {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(&v), string(raw))
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

func escapePointer(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
