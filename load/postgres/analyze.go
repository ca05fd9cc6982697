package postgres

import (
	"context"
	"fmt"
	"slices"
)

// analyzeRows is the number of rows that must be written to a table before its statistics are updated. If the planner
// assumes that a large table is empty, it scans the whole table for each row.
const analyzeRows = 50_000

// sampleTarget is the statistics target of ANALYZE. Postgres samples 300 rows per unit, so 6,000 rows. Autovacuum
// takes a larger sample later.
const sampleTarget = 20

// analyze updates the statistics of tables into which the last commits have written many rows. The sample is small,
// so that a load is not delayed. analyze runs after the commit, and nothing depends on it.
func (d *DB) analyze(ctx context.Context, s *session, written map[string]int64) {
	var due []string
	d.mu.Lock()
	for table, n := range written {
		total := d.written[table] + n
		// Update the statistics only if the number of written rows is four times that of the last update. So a long load
		// updates them rarely.
		if total >= analyzeRows && total/4 >= d.analyzed[table] {
			due = append(due, table)
			d.analyzed[table] = total
		}
		d.written[table] = total
	}
	d.mu.Unlock()
	slices.Sort(due)
	for _, table := range due {
		err := s.run(ctx, "BEGIN; SET LOCAL lock_timeout = '1s'; SET LOCAL default_statistics_target = "+fmt.Sprint(sampleTarget)+"; ANALYZE "+d.place(table)+"; COMMIT")
		if err != nil {
			s.rollback()
			d.o.Log.Debug("postgres: cannot update statistics", "table", table, "error", err)
			return
		}
	}
}
