package loadtest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/penstock-data/penstock/load"
)

// Trim implements [load.Trimmer].
func (m *Memory) Trim(ctx context.Context, r load.Retention) (n load.Trimmed, err error) {
	if err := m.acquire(ctx); err != nil {
		return n, err
	}
	defer func() { <-m.busy }()
	m.mu.Lock()
	defer m.mu.Unlock()
	r, whole, due := m.trims.Due(r)
	if !due {
		return n, nil
	}
	m.trims.Done(r)
	older := func(text string, before time.Time) bool {
		at, err := time.Parse(time.RFC3339Nano, text)
		return err == nil && at.Before(before)
	}
	old := func(text string) bool { return older(text, r.Before) }
	remove := func(name string, which func(Row) bool) (removed int64) {
		if t := m.tables[name]; t != nil {
			t = t.copy()
			all := len(t.rows)
			t.rows = slices.DeleteFunc(t.rows, which)
			m.tables[name], removed = t, int64(all-len(t.rows))
		}
		return removed
	}
	newest, kept := map[string]string{}, map[string]bool{}
	remove(load.Certificates.Name, func(row Row) bool {
		if row["pipeline"] == r.Pipeline {
			newest[row["stream"]] = max(newest[row["stream"]], row["run"])
		}
		return false
	})
	for _, run := range newest {
		kept[run] = true
	}
	ours := func(row Row) bool { return whole && row["pipeline"] == r.Pipeline }
	n.Certificates = remove(load.Certificates.Name, func(row Row) bool { return ours(row) && old(row["at"]) && !kept[row["run"]] })
	n.Runs = remove(load.Runs.Name, func(row Row) bool {
		return ours(row) && old(cmp.Or(row["ended_at"], row["started_at"])) && row["status"] != "running" && !kept[row["run"]]
	})
	n.Rejects = remove(load.Rejects.Name, func(row Row) bool { return ours(row) && old(row["resolved_at"]) })
	n.Checks = remove(load.Checks.Name, func(row Row) bool { return ours(row) && old(row["at"]) })
	n.RowChanges = remove(load.RowChanges.Name, func(row Row) bool { return ours(row) && old(row["at"]) })
	n.Events = remove(load.Events.Name, func(row Row) bool {
		return row["source"] == r.Source && older(row["received_at"], r.EventsBefore)
	})
	n.Notes = remove(load.Changes.Name, func(row Row) bool {
		return row["action"] == load.ActionDrift && old(row["at"]) && slices.ContainsFunc(load.Ancestors(row["table"]), func(name string) bool { return slices.Contains(r.Tables, name) })
	})
	return n, nil
}
