package postgres

import (
	"context"
	"fmt"
	"slices"
)

// analyzeRows is how many rows must have been written to a table before its
// statistics are made anew. A planner that takes a large table for an empty one
// reads all of it for each row.
const analyzeRows = 50_000

// sampleTarget makes a sample of 300 times as many rows. The server's own
// housekeeping takes a larger one later.
const sampleTarget = 20

// analyze makes the statistics of tables that a commit, or several, have
// written much to, out of a sample that is small enough not to hold up a load.
// It comes after the commit, and nothing depends on it.
func (d *DB) analyze(ctx context.Context, s *session, written map[string]int64) {
	var due []string
	d.mu.Lock()
	for table, n := range written {
		total := d.written[table] + n
		// Each time the table has grown to four times its size, so that a long load
		// does it seldom.
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
			d.o.Log.Debug("postgres: no statistics", "table", table, "error", err)
			return
		}
	}
}
