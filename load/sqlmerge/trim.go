package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// maxTrimmed is the greatest number of tables that one statement names. SQLite limits the depth of an expression to
// 1,000.
const maxTrimmed = 100

// maxRemoved is the greatest number of rows that one transaction of [Store.Trim] removes. Such a transaction takes some
// ten milliseconds, so commits of runs wait for it only briefly. longestTrimPause limits the pause after it.
const (
	maxRemoved       = 5_000
	longestTrimPause = 100 * time.Millisecond
)

// Trim removes old rows of penstock's own tables; see [load.Trimmer].
func (d *Store) Trim(ctx context.Context, r load.Retention) (n load.Trimmed, err error) {
	r, whole, due := d.trims.Due(r)
	if !due || !d.b.Exists() {
		return n, nil
	}
	t := trimmer{b: d.b, of: r, whole: whole}
	if err := t.all(ctx); err != nil {
		return t.n, fmt.Errorf("remove old rows: %w", err)
	}
	d.trims.Done(r)
	return t.n, nil
}

// trimmer removes old rows in many short transactions. Its fields say what the committed transactions have done.
type trimmer struct {
	b     Backend
	of    load.Retention
	whole bool // also remove the rows of the pipeline

	planned bool
	left    []removal // what is not removed yet
	after   string    // the last row that was removed from the table of left[0]; "": none
	n       load.Trimmed
}

// removal is the old rows of one table.
type removal struct {
	table, condition string
	count            func(*load.Trimmed) *int64
}

// all removes all old rows. After each transaction it pauses for as long as the transaction took, so that other
// processes that wait for the same database get their turn. Rows that are old stay old, so the next call continues
// where an interrupted call has ended.
func (t *trimmer) all(ctx context.Context) error {
	for {
		begun := time.Now()
		if err := t.b.Retry(ctx, func() error { return t.some(ctx) }); err != nil || len(t.left) == 0 {
			return err
		}
		select {
		case <-time.After(min(time.Since(begun), longestTrimPause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// some removes up to maxRemoved rows in one transaction. If that fails, t does not change.
func (t *trimmer) some(ctx context.Context) error {
	s, err := t.b.Write(ctx)
	if err != nil {
		return err
	}
	defer s.End()
	next := *t
	if err = next.remove(ctx, s); err == nil {
		err = s.Commit(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Rollback())
	}
	*t = next
	return t.b.Step("trimmed")
}

func (t *trimmer) remove(ctx context.Context, s Session) error {
	if !t.planned {
		if err := t.plan(ctx, s); err != nil {
			return err
		}
	}
	for room := int64(maxRemoved); room > 0 && len(t.left) > 0; {
		now := t.left[0]
		n, after, err := s.DeleteSome(ctx, now.table, now.condition, t.after, room)
		if err != nil {
			return err
		}
		*now.count(&t.n) += n
		switch first := t.after == ""; {
		case n == room:
			t.after = after
		case first:
			t.left = t.left[1:]
		default:
			t.after = "" // make sure that no old row comes before the last one
		}
		room -= n
	}
	return nil
}

// plan finds out what to remove. The runs come first, so that if this process is killed, no old run is left whose
// certificates were removed. Row changes can be removed although their run stays: the field removed in the counts of a
// later run then says so. // Invariant 14
func (t *trimmer) plan(ctx context.Context, s Session) error {
	c, r := newCatalog(t.b, s, load.Pass{}), t.of
	names := []string{load.Changes.Name, load.Events.Name}
	if t.whole {
		names = append(names, load.Certificates.Name, load.Runs.Name, load.Rejects.Name, load.RowChanges.Name, load.Checks.Name)
	}
	if err := c.look(ctx, names...); err != nil {
		return err
	}
	remove := func(from schemas.Table, count func(*load.Trimmed) *int64, conditions ...string) {
		if c.live[from.Name] != nil {
			conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
			t.left = append(t.left, removal{from.Name, strings.Join(conditions, " AND "), count})
		}
	}
	before := c.d.Timestamp(r.Before)
	at, drift := `"at" < `+before, "action = "+c.d.Literal(load.ActionDrift)
	if t.whole {
		ours := "pipeline = " + c.d.Literal(r.Pipeline)
		others, err := otherRuns(ctx, c, ours)
		if err != nil {
			return err
		}
		remove(load.Runs, func(n *load.Trimmed) *int64 { return &n.Runs }, ours, "coalesce(ended_at, started_at) < "+before, "status <> 'running'", others)
		remove(load.Certificates, func(n *load.Trimmed) *int64 { return &n.Certificates }, ours, at, others)
		remove(load.Rejects, func(n *load.Trimmed) *int64 { return &n.Rejects }, ours, "resolved_at < "+before)
		remove(load.RowChanges, func(n *load.Trimmed) *int64 { return &n.RowChanges }, ours, at)
		remove(load.Checks, func(n *load.Trimmed) *int64 { return &n.Checks }, ours, at)
	}
	if !r.EventsBefore.IsZero() {
		remove(load.Events, func(n *load.Trimmed) *int64 { return &n.Events }, "source = "+c.d.Literal(r.Source), "received_at < "+c.d.Timestamp(r.EventsBefore))
	}
	for some := range slices.Chunk(r.Tables, maxTrimmed) {
		remove(load.Changes, func(n *load.Trimmed) *int64 { return &n.Notes }, drift, at, FamilySQL(c.d, `"table"`, some))
	}
	t.planned = true
	return nil
}

// otherRuns returns the condition that a run does not have the newest certificate of any stream. Only such runs are
// removed. A run with a newest certificate stays, however old it is. If there are no certificates, otherRuns returns
// "".
func otherRuns(ctx context.Context, c *catalog, ours string) (string, error) {
	live := c.live[load.Certificates.Name]
	if live == nil {
		return "", nil
	}
	newest, err := newestRuns(ctx, c, ours, live.Types[schemas.ColSource] != "")
	if err != nil || len(newest) == 0 {
		return "", err
	}
	return "run NOT IN (" + strings.Join(newest, ", ") + ")", nil
}

// newestRuns returns the runs that have the newest certificate of a stream, as literals.
func newestRuns(ctx context.Context, c *catalog, where string, shared bool) (runs []string, err error) {
	by := "stream"
	if shared {
		by += ", " + schemas.ColSource
	}
	query := fmt.Sprintf("SELECT DISTINCT newest FROM (SELECT max(run%s) AS newest FROM %s WHERE %s GROUP BY %s) AS t", c.traits.Bytewise, c.d.Place(load.Certificates.Name), where, by)
	err = c.r.Query(ctx, query, func(v []driver.Value) error {
		run, _ := v[0].(string)
		runs = append(runs, c.d.Literal(run))
		return nil
	})
	return runs, err
}

// DeleteByRowID implements [Session].DeleteSome for a database in which each row has the hidden column rowid, and in
// which a scan passes deleted rows quickly.
func DeleteByRowID(ctx context.Context, s Session, place, condition string, limit int64) (int64, string, error) {
	// The condition is repeated, because a user's column with the name rowid would hide the column of the database.
	n, err := s.Affect(ctx, fmt.Sprintf("DELETE FROM %[1]s WHERE rowid IN (SELECT rowid FROM %[1]s WHERE %[2]s LIMIT %[3]d) AND %[2]s", place, condition, limit))
	return n, "", err
}
