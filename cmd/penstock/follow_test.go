//go:build cgo && duckdb_arrow && unix

package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

// follower keeps copies of a table and of its child table, as docs/following.md describes. Each read returns only rows
// that are newer than the newest row of the read before.
type follower struct {
	root, child string
	seen        string            // the latest value of _penstock_synced_at that was read so far, as the engine formats it
	rows        map[string]string // hash and tombstone of each row, by id
	parts       map[string]string // hash of each row of the child table, by parent and index
	reads       int               // number of reads that returned rows
}

func newFollower(root, child string) *follower {
	return &follower{root: root, child: child, seen: "1970-01-01 00:00:00+00", rows: map[string]string{}, parts: map[string]string{}}
}

// glance is a [glancer]. With one statement, it reads all changes since its last call, and adds them to the copies.
func (f *follower) glance(name func(root, table string) string, ask func(query string, to ...any) error) (int64, error) {
	root := name(f.root, f.root)
	if root == "" {
		return 0, nil
	}
	changed := fmt.Sprintf("FROM %s WHERE _penstock_synced_at > TIMESTAMPTZ '%s'", root, f.seen)
	parts := "''"
	if f.child != "" {
		child := name(f.root, f.child)
		if child == "" {
			return 0, nil
		}
		parts = fmt.Sprintf(`(SELECT coalesce(string_agg(concat_ws('|', _penstock_parent, _penstock_index, _penstock_hash, _penstock_deleted_at), chr(10)), '')
			FROM %s WHERE _penstock_parent IN (SELECT id %s))`, child, changed)
	}
	q := fmt.Sprintf(`SELECT (SELECT coalesce(string_agg(concat_ws('|', id, _penstock_hash, _penstock_deleted_at), chr(10)), '') %[1]s), %[2]s,
		(SELECT coalesce(CAST(max(_penstock_synced_at) AS varchar), '') %[1]s)`, changed, parts)
	var rows, children, seen string
	if err := ask(q, &rows, &children, &seen); err != nil || seen == "" {
		return 0, nil // no changes, or the table cannot be read at the moment
	}
	f.seen = seen
	f.reads++
	return f.take(rows, children), nil
}

// take adds rows and their child rows to the copies, and returns the number of rows.
func (f *follower) take(rows, children string) (n int64) {
	for line := range strings.SplitSeq(rows, "\n") {
		id, rest, _ := strings.Cut(line, "|")
		f.rows[id] = rest
		maps.DeleteFunc(f.parts, func(place, _ string) bool { return strings.HasPrefix(place, id+"|") })
		n++
	}
	for line := range strings.SplitSeq(children, "\n") {
		if place := strings.SplitN(line, "|", 3); len(place) == 3 {
			f.parts[place[0]+"|"+place[1]] = place[2]
		}
	}
	return n
}

// TestFollowers lets followers copy tables while passes with many commits fill and change these tables. After each
// sync, a new follower reads everything. Its copies must equal the copies of the older followers.
func TestFollowers(t *testing.T) {
	onEach(t, func(t *testing.T, to target) {
		t.Parallel()
		p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: 6, Latency: 60 * time.Millisecond}, `["v2.contacts", "sales.invoices"]`, to)
		r := &crashRig{platform: p}
		look, closed := to.watch(t)
		defer closed()
		all := []*follower{newFollower("v2_contacts", ""), newFollower("sales_invoices", "sales_invoices__items")}
		for change := range 2 {
			if change > 0 {
				p.change(t)
			}
			c := r.start(t, r.config(), "")
			done := make(chan int, 1)
			go func() { code, _ := c.wait(); done <- code }()
			for over := false; !over; {
				select {
				case code := <-done:
					require.Zero(t, code, c.out.String())
					over = true
				case <-time.After(20 * time.Millisecond):
				}
				for _, f := range all {
					_, err := look(f.glance)
					require.NoError(t, err)
				}
			}
			for _, f := range all {
				fresh := newFollower(f.root, f.child)
				_, err := look(fresh.glance)
				require.NoError(t, err)
				require.NotEmpty(t, fresh.rows)
				require.Equal(t, fresh.rows, f.rows, "rows of %s after sync %d", f.root, change)
				require.Equal(t, fresh.parts, f.parts, "rows of %s after sync %d", f.child, change)
			}
		}
		require.GreaterOrEqual(t, all[0].reads, 2, "too few reads of %s while syncs ran", all[0].root)
	})
}
