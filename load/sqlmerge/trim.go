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

// Trim removes old rows of penstock's own tables; see [load.Trimmer].
func (d *Store) Trim(ctx context.Context, pipeline string, tables []string, before time.Time) (n load.Trimmed, err error) {
	day := before.UTC().Truncate(24 * time.Hour)
	note := func(table string) string { return pipeline + "\x00" + table }
	d.mu.Lock()
	done := d.trimmed[pipeline].Equal(day)
	tables = slices.DeleteFunc(slices.Clone(tables), func(t string) bool { return d.trimmed[note(t)].Equal(day) })
	d.mu.Unlock()
	if done && len(tables) == 0 || !d.b.Exists() {
		return n, nil
	}
	s, err := d.b.Write(ctx)
	if err != nil {
		return n, fmt.Errorf("remove old certificates: %w", err)
	}
	defer s.End()
	if n, err = d.trim(ctx, s, pipeline, tables, before, !done); err == nil {
		err = s.Commit(ctx)
	}
	if err != nil {
		return load.Trimmed{}, fmt.Errorf("remove old certificates: %w", errors.Join(err, s.Rollback()))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trimmed[pipeline] = day
	for _, t := range tables {
		d.trimmed[note(t)] = day
	}
	return n, nil
}

func (d *Store) trim(ctx context.Context, s Session, pipeline string, tables []string, before time.Time, certificates bool) (n load.Trimmed, err error) {
	c := newCatalog(d.b, s, load.Pass{})
	if err := c.look(ctx, load.Certificates.Name, load.Changes.Name); err != nil {
		return n, err
	}
	old := ` AND "at" < ` + d.b.Timestamp(before)
	if there := c.live[load.Certificates.Name]; there != nil && certificates {
		where := "pipeline = " + d.b.Literal(pipeline)
		newest, err := newestRuns(ctx, d.b, s, where, there.Types[schemas.ColSource] != "")
		if err != nil {
			return n, err
		}
		if len(newest) > 0 {
			n.Certificates, err = s.Affect(ctx, "DELETE FROM "+d.b.Place(load.Certificates.Name)+" WHERE "+where+old+" AND run NOT IN ("+strings.Join(newest, ", ")+")")
		}
		if err != nil {
			return n, err
		}
	}
	if c.live[load.Changes.Name] == nil {
		return n, nil
	}
	for some := range slices.Chunk(tables, maxTrimmed) {
		removed, err := s.Affect(ctx, "DELETE FROM "+d.b.Place(load.Changes.Name)+" WHERE action = "+d.b.Literal(load.ActionDrift)+old+" AND "+FamilySQL(d.b, `"table"`, some))
		if err != nil {
			return n, err
		}
		n.Notes += removed
	}
	return n, nil
}

// newestRuns returns the runs that have the newest certificate of a stream, as literals.
func newestRuns(ctx context.Context, b Backend, s Session, where string, shared bool) (runs []string, err error) {
	by := "stream"
	if shared {
		by += ", " + schemas.ColSource
	}
	query := fmt.Sprintf("SELECT DISTINCT newest FROM (SELECT max(run%s) AS newest FROM %s WHERE %s GROUP BY %s) AS t", b.Traits().Bytewise, b.Place(load.Certificates.Name), where, by)
	err = s.Query(ctx, query, func(v []driver.Value) error {
		run, _ := v[0].(string)
		runs = append(runs, b.Literal(run))
		return nil
	})
	return runs, err
}
