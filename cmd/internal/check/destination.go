package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Destination opens a destination and checks that it can be written. It also reports each stream that has reached its
// column limit, and whose records have members without a column.
func Destination(ctx context.Context, o *open.Opener, c *config.Config, d config.Destination) []Finding {
	part := "destination " + d.Name
	if d.PerSource() && len(c.Sources) > 0 {
		d = d.For(c.Sources[0].Name) // each source has its own part of the destination; all parts are alike, so only the first part is checked
	}
	p, err := o.Kinds.Of(c, d)
	if err == nil && p.Check != nil {
		err = p.Check(ctx, o, d)
	}
	if err != nil {
		return []Finding{Failed(ctx, part, err, "")}
	}
	dest, err := o.Destination(ctx, c, d)
	if err != nil {
		return []Finding{Failed(ctx, part, err, "")}
	}
	defer dest.Close()
	if _, err := dest.Cursor(ctx, state.Key{Pipeline: "check", Stream: "_check"}); err != nil {
		hint := render.DestinationRemedy(err)
		if errors.Is(err, state.ErrLocked) {
			// Cause: another program has the file of the destination open
			hint = "close the program that has it open, or wait; a sync would wait too, then exit with code 75"
		}
		return []Finding{Failed(ctx, part, err, hint)}
	}
	found := Finding{Part: part, OK: true, Detail: d.Shown}
	if p.Warn != nil {
		hints, err := p.Warn(ctx, o, d)
		if err != nil {
			return []Finding{Failed(ctx, part, err, "")}
		}
		found.Hint = strings.Join(hints, "; ")
	}
	hint, err := checkTables(ctx, c, d, dest)
	if err != nil {
		return []Finding{Failed(ctx, part, err, "")}
	}
	if hint != "" {
		found.Hint = strings.TrimPrefix(found.Hint+"; "+hint, "; ")
	}
	all := append([]Finding{found}, checkColumns(ctx, c, d, dest)...)
	return append(all, checkOverflow(ctx, o, c, d, dest)...)
}

// checkTables checks whether the settings of a destination fit the declared columns of tables that do not exist yet.
// Tables that exist keep the settings with which they were made. The hint says that no table has the column by which
// tables are to be partitioned, because its name may be misspelled. Child tables are never partitioned. There is no hint
// while the columns of a stream are unknown: it has no tables yet, and declares no columns.
func checkTables(ctx context.Context, c *config.Config, d config.Destination, dest load.Destination) (hint string, err error) {
	checker, ok := dest.(load.TableChecker)
	if !ok {
		return "", nil
	}
	streams, err := streamsTo(c, d)
	if err != nil {
		return "", err
	}
	var misfits []error
	by := checker.PartitionColumn()
	loaded, known, found := false, true, by == ""
	for _, s := range streams {
		tables, err := dest.Tables(ctx, s.Table.Name)
		if err != nil {
			return "", err
		}
		for _, t := range tables {
			loaded, found = true, found || t.Columns.HasField(by) && !t.Columns.HasField(schemas.ColParent)
		}
		if len(tables) > 0 {
			continue
		}
		columns, err := s.DeclaredColumns()
		if err != nil {
			return "", err
		}
		known, found = known && columns.NumFields() > 0, found || columns.HasField(by)
		misfits = append(misfits, checker.CheckTable(schemas.Table{Name: s.Table.Name, Columns: columns}))
	}
	if err := errors.Join(misfits...); err != nil {
		// Cause: the type of a column does not fit the transform in `partition_by`
		return "", failure.Usage("choose another column or transform, or set the type of the column under `columns:` of the stream", "%w", err)
	}
	if loaded && known && !found {
		// Cause: the name of the column in `partition_by` may be misspelled
		hint = fmt.Sprintf("no table has the column %q of partition_by, so no table is partitioned", by)
	}
	return hint, nil
}

// streamsTo returns the streams that pipelines load into a destination.
func streamsTo(c *config.Config, d config.Destination) (all []config.Stream, err error) {
	seen := map[string]bool{}
	for _, p := range c.Pipelines {
		if !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		streams, err := c.Select(p, nil)
		if err != nil {
			return nil, err
		}
		for _, s := range streams {
			if !seen[s.Name] {
				seen[s.Name] = true
				all = append(all, s)
			}
		}
	}
	return all, nil
}

// checkOverflow returns a finding for each stream that has reached its column limit in d, and whose records have
// members without a column there.
func checkOverflow(ctx context.Context, o *open.Opener, c *config.Config, d config.Destination, dest load.Destination) []Finding {
	since, err := history.Overflows(ctx, dest)
	var all []Finding
	reported := map[string]bool{}
	for _, p := range c.Pipelines {
		if len(since) == 0 || !slices.ContainsFunc(p.To, func(to config.Ref) bool { return to.Text == d.Name }) {
			continue
		}
		streams, failed := c.Select(p, nil)
		err = errors.Join(err, failed)
		o.LimitColumns(c, p, streams)
		for _, s := range streams {
			at, ok := since[s.Table.Name]
			if !ok || reported[s.Name] {
				continue
			}
			reported[s.Name] = true
			o, failed := history.ReadOverflow(ctx, dest, d.Name, s.Table, at)
			if err = errors.Join(err, failed); o.Records > 0 {
				all = append(all, Finding{Part: "stream " + s.Name, OK: true, Detail: o.String(), Hint: o.Remedy(s.Stream)})
			}
		}
	}
	if err != nil {
		o.Log.Warn("cannot count fields beyond the column limit", "destination", d.Name, "error", err)
	}
	return all
}
