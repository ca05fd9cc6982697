package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// maxTrimmed is the greatest number of tables that one statement names. SQLite limits the depth of an expression to
// 1,000.
const maxTrimmed = 100

// Trim removes old rows of penstock's own tables; see [load.Trimmer].
func (d *Store) Trim(ctx context.Context, r load.Retention) (n load.Trimmed, err error) {
	r, whole, due := d.trims.Due(r)
	if !due || !d.b.Exists() {
		return n, nil
	}
	s, err := d.b.Write(ctx)
	if err != nil {
		return n, fmt.Errorf("remove old rows: %w", err)
	}
	defer s.End()
	t := trimmer{catalog: newCatalog(d.b, s, load.Pass{}), s: s, before: d.b.Timestamp(r.Before)}
	if err = t.trim(ctx, r, whole); err == nil {
		err = s.Commit(ctx)
	}
	if err != nil {
		return load.Trimmed{}, fmt.Errorf("remove old rows: %w", errors.Join(err, s.Rollback()))
	}
	d.trims.Done(r)
	return t.n, nil
}

// trimmer removes old rows in one transaction.
type trimmer struct {
	*catalog
	s      Session
	before string // literal of the time before which rows are old
	n      load.Trimmed
}

// trim removes the rows that r describes. It removes the rows of the pipeline only if the argument `whole` is true.
func (t *trimmer) trim(ctx context.Context, r load.Retention, whole bool) error {
	names := []string{load.Changes.Name, load.Events.Name}
	if whole {
		names = append(names, load.Certificates.Name, load.Runs.Name, load.Rejects.Name, load.RowChanges.Name)
	}
	if err := t.look(ctx, names...); err != nil {
		return err
	}
	var err error
	remove := func(from schemas.Table, count *int64, conditions ...string) {
		if err != nil || t.live[from.Name] == nil {
			return
		}
		conditions = slices.DeleteFunc(conditions, func(c string) bool { return c == "" })
		var n int64
		n, err = t.s.Affect(ctx, "DELETE FROM "+t.d.Place(from.Name)+" WHERE "+strings.Join(conditions, " AND "))
		*count += n
	}
	at, drift := `"at" < `+t.before, "action = "+t.d.Literal(load.ActionDrift)
	if whole {
		ours := "pipeline = " + t.d.Literal(r.Pipeline)
		var others string
		others, err = t.otherRuns(ctx, ours)
		remove(load.Certificates, &t.n.Certificates, ours, at, others)
		remove(load.Runs, &t.n.Runs, ours, "coalesce(ended_at, started_at) < "+t.before, "status <> 'running'", others)
		remove(load.Rejects, &t.n.Rejects, ours, "resolved_at < "+t.before)
		remove(load.RowChanges, &t.n.RowChanges, ours, at)
	}
	if !r.EventsBefore.IsZero() {
		remove(load.Events, &t.n.Events, "source = "+t.d.Literal(r.Source), "received_at < "+t.d.Timestamp(r.EventsBefore))
	}
	for some := range slices.Chunk(r.Tables, maxTrimmed) {
		remove(load.Changes, &t.n.Notes, drift, at, FamilySQL(t.d, `"table"`, some))
	}
	return err
}

// otherRuns returns the condition that a run does not have the newest certificate of any stream. Only such runs are
// removed. A run with a newest certificate stays, however old it is. If there are no certificates, otherRuns returns
// "".
func (t *trimmer) otherRuns(ctx context.Context, ours string) (string, error) {
	live := t.live[load.Certificates.Name]
	if live == nil {
		return "", nil
	}
	newest, err := t.newestRuns(ctx, ours, live.Types[schemas.ColSource] != "")
	if err != nil || len(newest) == 0 {
		return "", err
	}
	return "run NOT IN (" + strings.Join(newest, ", ") + ")", nil
}

// newestRuns returns the runs that have the newest certificate of a stream, as literals.
func (t *trimmer) newestRuns(ctx context.Context, where string, shared bool) (runs []string, err error) {
	by := "stream"
	if shared {
		by += ", " + schemas.ColSource
	}
	query := fmt.Sprintf("SELECT DISTINCT newest FROM (SELECT max(run%s) AS newest FROM %s WHERE %s GROUP BY %s) AS t", t.traits.Bytewise, t.d.Place(load.Certificates.Name), where, by)
	err = t.s.Query(ctx, query, func(v []driver.Value) error {
		run, _ := v[0].(string)
		runs = append(runs, t.d.Literal(run))
		return nil
	})
	return runs, err
}
