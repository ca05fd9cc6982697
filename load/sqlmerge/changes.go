package sqlmerge

import (
	"context"
	"database/sql/driver"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// maker is a run that has created a table.
type maker struct {
	run string
	at  time.Time
}

// asCreated reports whether the named table is one of penstock's own tables, and has the columns that it should have.
// A [Pooled] backend creates these tables itself, and records no changes for them.
func (c *catalog) asCreated(name string) bool {
	o := c.live[name]
	if !c.pooled || !load.IsInternal(name) || o == nil || !o.isTable() {
		return false
	}
	for _, t := range load.OwnTables() {
		if t.Name != name {
			continue
		}
		if o.Types[schemas.ColSource] != "" {
			t = load.ShareTable(t)
		}
		return maps.Equal(c.typesOf(t), o.Types)
	}
	return false
}

// mostFamilies is the greatest number of families that a query names one by one. For more families, it is cheaper to
// read the recorded changes of all tables.
const mostFamilies = 20

// readChanges adds the recorded changes of the families of the named tables. It leaves out drift, which is a change of
// the source and not of a table.
func (c *catalog) readChanges(ctx context.Context, names []string) error {
	c.stale = true
	if c.live[load.Changes.Name] == nil {
		return nil
	}
	query := "SELECT " + c.d.Micros(`"at"`) + `, "table", "column", source, action, from_type, to_type, run FROM ` + c.d.Place(load.Changes.Name) +
		" WHERE action <> " + c.d.Literal(load.ActionDrift)
	if len(names) <= mostFamilies {
		views := make([]string, len(names))
		for i, n := range names {
			views[i] = c.d.Literal(n + viewSuffix)
		}
		query += " AND (" + FamilySQL(c.d, `"table"`, names) + " OR action = " + c.d.Literal(load.ActionView) + ` AND "table" IN (` + strings.Join(views, ", ") + "))"
	}
	named := map[string]bool{}
	for _, n := range names {
		named[n] = true
	}
	return c.r.Query(ctx, query, func(v []driver.Value) error {
		var change load.Change
		at, _ := v[0].(int64)
		change.At = time.UnixMicro(at)
		for i, p := range []*string{&change.Table, &change.Column, &change.Source, &change.Action, &change.From, &change.To} {
			*p, _ = v[i+1].(string)
		}
		if len(names) > mostFamilies && !isOf(change, named) {
			return nil
		}
		c.changes = append(c.changes, change)
		if change.Action == load.ActionCreate && !change.At.Before(c.makers[change.Table].at) {
			run, _ := v[7].(string)
			c.makers[change.Table] = maker{run, change.At}
		}
		return nil
	})
}

// isOf reports whether a change concerns the families of the named tables.
func isOf(c load.Change, named map[string]bool) bool {
	name, isView := strings.CutSuffix(c.Table, viewSuffix)
	return isView && c.Action == load.ActionView && named[name] ||
		named[c.Table] || slices.ContainsFunc(load.Ancestors(c.Table), func(n string) bool { return named[n] })
}

// The method record() stores changes in the table that readChanges reads, and sets their time. Changes are replayed in
// the order of their times. So record() chooses a time that is later than the times of all earlier changes to the same
// families.
func (c *catalog) record(sql *statements, changes []load.Change) error {
	if len(changes) == 0 {
		return nil
	}
	first := c.stamp.IsZero()
	if first {
		c.stamp = c.of.Time()
	}
	for _, earlier := range c.changes { // another transaction may have changed tables before this transaction used them
		if first || earlier.At.After(c.stamp) {
			c.stamp = load.CommitTime(c.stamp, earlier.At)
		}
	}
	rows := make([]string, len(changes))
	for i, change := range changes {
		changes[i].At = c.stamp
		values := []string{c.d.Timestamp(c.stamp)}
		for _, text := range []string{c.of.Run, change.Table, change.Column, change.Source, change.Action, change.From, change.To, change.Reason} {
			values = append(values, c.d.Literal(text))
		}
		rows[i] = "(" + strings.Join(values, ", ") + ")"
	}
	c.changes, c.stale = append(c.changes, changes...), true
	return sql.exec("INSERT INTO " + c.d.Place(load.Changes.Name) + " (" + Idents(load.Names(load.Changes.Columns)) + ") VALUES " + strings.Join(rows, ", "))
}
