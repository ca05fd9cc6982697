package history

import (
	"context"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Changes returns all changes of the destination's tables, in the order in which they were made.
func Changes(ctx context.Context, d load.Destination) ([]load.Change, error) {
	var all []load.Change
	err := Scan(ctx, d, load.Changes, func(r Row) error {
		all = append(all, load.Change{
			At: r.Time("at"), Table: r.Text("table"), Column: r.Text("column"), Source: r.Text("source"),
			Action: r.Text("action"), From: r.Text("from_type"), To: r.Text("to_type"), Reason: r.Text("reason"),
		})
		return nil
	})
	return all, err
}

// Tables returns the loaded tables by name, without penstock's own tables.
func Tables(ctx context.Context, d load.Destination) (map[string]schemas.Table, error) {
	done, err := Changes(ctx, d)
	if err != nil {
		return nil, err
	}
	all, err := load.Replay(done)
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
