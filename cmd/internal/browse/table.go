package browse

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Summary is a table in a list of tables.
type Summary struct {
	Proof
	About string
	Count int64 // number of rows, or Unknown
}

// Unknown is the number of rows of a table whose rows could not be counted.
const Unknown int64 = -1

// Listing is a list of the tables of a destination.
type Listing struct {
	Estimated bool // the server estimates the numbers of rows
	Tables    []Summary
}

// Tables lists the loaded tables of a destination.
func (b *Browser) Tables(ctx context.Context, d *open.Reader) (Listing, error) {
	out, dialect := Listing{}, Dialect(d.Config)
	tables, err := knowledge.Tables(ctx, d)
	if err != nil {
		return out, err
	}
	proofs, err := b.Proofs(ctx, d)
	if err != nil {
		return out, err
	}
	counts := countRows(ctx, d, dialect, tables)
	out.Estimated = estimates(dialect)
	for _, t := range tables {
		n, ok := counts[t.Name]
		if !ok {
			n = Unknown
		}
		out.Tables = append(out.Tables, Summary{proofs.Of(t), load.TableDescription(t.Columns), n})
	}
	return out, nil
}

// estimates reports whether a kind of server estimates the number of rows. Counting would read its whole tables.
func estimates(dialect string) bool { return dialect == postgres || dialect == mysql }

// countRows returns the numbers of rows of tables, by table. It leaves out tables whose rows it cannot count: a page
// without these numbers is better than none.
func countRows(ctx context.Context, d *open.Reader, dialect string, tables []knowledge.Table) map[string]int64 {
	if len(tables) == 0 {
		return nil
	}
	r := collector{limits: Limits{Rows: 10_000, Bytes: 4 << 20}}
	if err := r.ask(ctx, d, countSQL(dialect, tables)); err != nil {
		return nil
	}
	all := map[string]int64{}
	for _, row := range r.Rows {
		name, _ := row[0].(string)
		if n, ok := row[1].(int64); ok && n >= 0 {
			all[name] = n
		}
	}
	return all
}

func countSQL(dialect string, tables []knowledge.Table) string {
	switch dialect {
	case postgres:
		return "SELECT CAST(relname AS text), CAST(reltuples AS bigint) FROM pg_catalog.pg_class WHERE relkind IN ('r', 'p') AND pg_catalog.pg_table_is_visible(oid)"
	case mysql:
		return "SELECT table_name, CAST(table_rows AS SIGNED) FROM information_schema.tables WHERE table_schema = DATABASE()"
	}
	each := make([]string, len(tables))
	for i, t := range tables {
		each[i] = "SELECT " + text(dialect, t.Name) + ", count(*) FROM " + ident(dialect, t.Name)
	}
	return strings.Join(each, " UNION ALL ")
}

// Table is a table with its columns. With the right to read rows it also has statistics and rows.
type Table struct {
	Proof
	Dialect   string
	Count     int64 // number of rows, or Unknown
	Estimated bool
	RowsAre   string // what a row of the table is
	Columns   []TableColumn
	Names     []Column // the columns without their statistics
	Sampled   int      // rows of the sample from which the statistics come; 0: no sample was read
	Random    bool     // the sample has rows from the whole table, and not only its first rows
	Whole     bool     // the sample is the whole table
	Rows      [][]any  // the first rows that match the filters
	More      bool     // more rows match
}

// TableColumn is a column of a table.
type TableColumn struct {
	Column
	About, Mask string
	Key         bool
	Profile
}

// TableInput says what to read of a table.
type TableInput struct {
	Table   string
	Rows    int // how many rows to read; 0: neither rows nor statistics
	Filters []Filter
}

// pageBytes limits the rows of a page, and sampleBytes limits a sample. // Invariant 6
const (
	pageBytes   = 2 << 20
	sampleBytes = 32 << 20
	sampleRows  = 10_000
)

// Table describes a table.
func (b *Browser) Table(ctx context.Context, d *open.Reader, in TableInput) (out Table, err error) {
	tables, err := knowledge.Tables(ctx, d)
	if err != nil {
		return out, err
	}
	for _, t := range tables {
		if !strings.EqualFold(t.Name, in.Table) {
			continue
		}
		proofs, err := b.Proofs(ctx, d)
		if err != nil {
			return out, err
		}
		out = describe(d, t, proofs)
		if rows, ok := countRows(ctx, d, out.Dialect, []knowledge.Table{t})[t.Name]; ok {
			out.Count = rows
		}
		if in.Rows == 0 {
			return out, nil
		}
		return out, out.read(ctx, d, t.Name, in)
	}
	return out, failure.Hinted(fmt.Errorf("no table %q in destination %s", in.Table, d.Name), "the list of tables shows what is loaded")
}

// describe returns a table without its rows.
func describe(d *open.Reader, t knowledge.Table, proofs Proofs) Table {
	out := Table{Proof: proofs.Of(t), Count: Unknown, Dialect: Dialect(d.Config), RowsAre: RowsOf(t)}
	out.Estimated = estimates(out.Dialect)
	for i, c := range t.Doc.Columns {
		column := Column{c.Name, c.Type}
		out.Names = append(out.Names, column)
		out.Columns = append(out.Columns, TableColumn{Column: column, About: cmp.Or(schemas.DescriptionOf(t.Columns.Field(i)), c.Meaning), Mask: c.Mask, Key: c.Key})
	}
	return out
}

// RowsOf says what a row of a table is.
func RowsOf(t knowledge.Table) string {
	switch {
	case t.Mode == schemas.History:
		return "one row for each version of a record; the view " + t.Name + "_current has only the current versions"
	case t.Mode == schemas.Append:
		return "one row for each version of a record, in the order in which they were read"
	case t.Mode == schemas.Merge && len(t.Key) > 0:
		return "one row for each record; deleted records have a time in _penstock_deleted_at, and the view " + t.Name + "_current leaves them out"
	}
	return "one row for each record"
}

// read reads the first rows and the statistics of a table.
func (t *Table) read(ctx context.Context, d *open.Reader, name string, in TableInput) error {
	condition, err := where(t.Dialect, t.Names, in.Filters)
	if err != nil {
		return err
	}
	columns := make([]string, len(t.Names))
	for i, c := range t.Names {
		columns[i] = shown(t.Dialect, c)
	}
	sql := "SELECT " + strings.Join(columns, ", ") + " FROM " + ident(t.Dialect, name)
	first := collector{limits: Limits{Rows: in.Rows, Bytes: pageBytes}}
	if err := first.ask(ctx, d, fmt.Sprintf("%s%s LIMIT %d", sql, condition, in.Rows+1)); err != nil {
		return err
	}
	t.Rows, t.More = first.Rows, first.Cut != ""
	sample := collector{limits: Limits{Rows: sampleRows, Bytes: sampleBytes}}
	statement, random := sampleSQL(t.Dialect, strings.Join(columns, ", "), ident(t.Dialect, name), t.Count)
	if err := sample.ask(ctx, d, statement); err != nil {
		return err
	}
	t.Sampled, t.Random, t.Whole = len(sample.Rows), random, !random && len(sample.Rows) < sampleRows && sample.Cut == ""
	for i := range t.Columns {
		t.Columns[i].Profile = profileOf(t.Columns[i].Column, sample.Rows, i)
	}
	return nil
}

// sampleSQL returns a statement that reads at most sampleRows rows, and reports whether they are random rows of the whole
// table. In a large table, Postgres and DuckDB choose blocks of rows at random, and then random rows of these blocks.
// Servers return blocks in the order of the table, so a plain LIMIT would leave out its end. The other servers cannot
// choose blocks, so their sample is the first rows.
func sampleSQL(dialect, columns, table string, rows int64) (sql string, random bool) {
	sql = "SELECT " + columns + " FROM " + table
	blocks, number := "", ""
	switch {
	case rows < 4*sampleRows:
	case dialect == duckdb: // a block has 2,048 rows, and a few blocks would not represent the table
		blocks, number = fmt.Sprintf(" TABLESAMPLE system(%.4f%%)", percentOf(10*sampleRows, rows)), "random()"
	case dialect == postgres:
		blocks, number = fmt.Sprintf(" TABLESAMPLE SYSTEM (%.4f)", percentOf(2*sampleRows, rows)), "pg_catalog.random()"
	}
	if blocks != "" {
		sql = "SELECT * FROM (" + sql + blocks + ") AS chosen ORDER BY " + number
	}
	return fmt.Sprintf("%s LIMIT %d", sql, sampleRows), blocks != ""
}

// percentOf returns which percentage of a table has the wanted number of rows, rounded up.
func percentOf(wanted, rows int64) float64 {
	return min(100, math.Ceil(100*float64(wanted)*1e4/float64(rows))/1e4)
}
