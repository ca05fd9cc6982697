package main

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// changes returns all changes of the destination's tables, in the order in which they were made.
func (d *reader) changes(ctx context.Context) ([]load.Change, error) {
	var all []load.Change
	err := scan(ctx, d, load.Changes, func(r row) error {
		all = append(all, load.Change{
			At: r.time("at"), Table: r.text("table"), Column: r.text("column"), Source: r.text("source"),
			Action: r.text("action"), From: r.text("from_type"), To: r.text("to_type"), Reason: r.text("reason"),
		})
		return nil
	})
	return all, err
}

// tables returns the loaded tables by name, without penstock's own tables.
func (d *reader) tables(ctx context.Context) (map[string]schemas.Table, error) {
	changes, err := d.changes(ctx)
	if err != nil {
		return nil, err
	}
	all, err := tablesOf(changes)
	if d.conf.Shared(d.of) { // the files of a lake have no source column, because the source is in the names of folders
		for name, t := range all {
			all[name] = load.ShareTable(t)
		}
	}
	return all, err
}

// tablesOf returns the tables that result from changes, without penstock's own tables.
func tablesOf(changes []load.Change) (map[string]schemas.Table, error) {
	all, err := load.Replay(changes)
	if err != nil {
		return nil, err
	}
	for name := range all {
		if load.IsInternal(name) {
			delete(all, name)
		}
	}
	return all, nil
}

// table returns one of the loaded tables.
func (d *reader) table(ctx context.Context, name string) (schemas.Table, error) {
	all, err := d.tables(ctx)
	if err != nil {
		return schemas.Table{}, err
	}
	t, ok := all[name]
	if !ok {
		return t, d.unknownTable(name)
	}
	return t, nil
}

func (d *reader) unknownTable(name string) error {
	return &failure.Error{
		Err:  fmt.Errorf("no table %q in destination %s", name, d.name),
		Hint: "`penstock docs` lists what is loaded",
		Code: failure.ExitFailed,
	}
}
