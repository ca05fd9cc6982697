package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// analyzeRows is how many rows must be written to a table before penstock updates its statistics. Without statistics,
// the planner may assume that a large table is empty. It would then scan the whole table for each row.
const analyzeRows = 50_000

// sampleTarget is the statistics target of ANALYZE. Postgres samples 300 rows for each unit of it, in total 6,000 rows.
// Autovacuum takes a larger sample later.
const sampleTarget = 20

// statistics counts the rows that were written to each table. It is safe for concurrent use.
type statistics struct {
	mu                sync.Mutex
	written, analyzed map[string]int64 // number of written rows by table: in total, and up to the table's last ANALYZE
}

// writtenRows counts rows that a transaction has written to a table.
type writtenRows struct {
	table schemas.Table
	rows  int64
}

// due() adds newly written rows to the counts, and returns the tables whose statistics must be updated.
func (st *statistics) due(written map[string]writtenRows) (tables []schemas.Table) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, table := range slices.Sorted(maps.Keys(written)) {
		total := st.written[table] + written[table].rows
		// Update the statistics again only when the number of written rows is four times the number at the last update.
		// So a long load updates them rarely.
		if total >= analyzeRows && total/4 >= st.analyzed[table] {
			tables = append(tables, written[table].table)
			st.analyzed[table] = total
		}
		st.written[table] = total
	}
	return tables
}

// analyze updates the statistics of tables into which the last commits have written many rows. The sample is small, and
// has only the columns by which penstock finds rows. So this delays a load very little. Autovacuum updates the
// statistics of all columns later. analyze runs after the commit, and its errors are ignored.
func (t *transaction) analyze(ctx context.Context) {
	for _, table := range t.b.stats.due(t.written) {
		place := t.b.Place(table.Name) + " (" + idents(soughtColumns(table)) + ")"
		err := t.run(ctx, "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL default_statistics_target = "+fmt.Sprint(sampleTarget)+"; ANALYZE "+place+"; COMMIT")
		if err != nil {
			t.rollback()
			t.b.o.Log.Debug("postgres: cannot update statistics", "table", table.Name, "error", err)
			return
		}
	}
}

// soughtColumns returns the columns by which penstock finds rows of a table: keys, and penstock's own columns.
func soughtColumns(t schemas.Table) []string {
	columns := slices.Concat(load.FullKey(t), sqlmerge.FindColumns(t))
	for _, name := range load.Names(t.Columns) {
		if strings.HasPrefix(name, load.Prefix) && name != schemas.ColRest {
			columns = append(columns, name)
		}
	}
	slices.Sort(columns)
	return slices.Compact(columns)
}
