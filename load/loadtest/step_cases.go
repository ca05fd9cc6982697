package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// scenario returns two commits. The second commit adds and widens columns. Compared with the first commit, some of its
// records are new, changed, unchanged or missing. Some records have child rows.
func scenario() (before, after []put) {
	items := hanging("people__items", schemas.Int64, false, column("sku", schemas.Text))
	before = []put{
		{people, []Row{person("run000000001", 0, "1", "ann"), person("run000000001", 1, "2", "bob"), person("run000000001", 2, "3", "cid")}},
		{items, itemsOf("run000000001", 1, "h-bob", "2", "x", "y")},
	}
	wider := root("people", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text), column("age", schemas.Int64))
	run := "run000000002"
	after = []put{
		{wider, []Row{
			person(run, 0, "1", "ann"), with(run, 1, "h", Row{"id": "2", "name": "bea", "age": "7"}), with(run, 2, "h", Row{"id": "x", "name": "eve"}),
		}},
		{items, itemsOf(run, 1, "h", "2", "z")},
	}
	return before, after
}

func (b *fixture) attempt(ctx context.Context, puts []put) error {
	x, err := b.dest.Begin(ctx, b.key, b.cursor, b.pass)
	if err != nil {
		return err
	}
	defer func() { _ = x.Rollback() }()
	b.write(x, puts...)
	if _, err := x.Apply(ctx, sweep("people")); err != nil {
		return err
	}
	return x.Commit(ctx, "after")
}

func (b *fixture) snapshot() map[string][]Row {
	out := map[string][]Row{}
	for _, name := range []string{"people", "people__items", load.State.Name} {
		rows := b.driver.Rows(b, b.dest, name)
		for _, r := range rows {
			delete(r, "updated_at")
		}
		slices.SortFunc(rows, func(a, b Row) int {
			switch x, y := fmt.Sprint(a), fmt.Sprint(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		out[name] = rows
	}
	return out
}

func stepsOf(t *testing.T, d Driver) (steps []string) {
	var mu sync.Mutex
	b := newFixture(t, d)
	before, after := scenario()
	b.commit(load.Sweep{}, before...)
	b.reopenWith(func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, name)
		return nil
	})
	b.run(2)
	require.NoError(t, b.attempt(t.Context(), after))
	require.NoError(t, b.dest.Close())
	mu.Lock()
	defer mu.Unlock()
	return slices.Clone(steps)
}

// everyStep commits once for each step, and calls fail() at that step. The commit must have either all of its effects
// or none. If the parameter `every` is a number n above 1, some steps are left out to save time: only each n-th step
// and the first step with each name fail. A step is known by its name and by how often the name came before: on a slow
// machine, a destination may close and open its file between two steps.
func everyStep(t *testing.T, d Driver, every int, fail func(cancel func()) error) {
	steps := stepsOf(t, d)
	require.NotEmpty(t, steps, "the destination has no named steps")
	for i, name := range steps {
		if i%every != 0 && slices.Index(steps, name) < i {
			continue
		}
		nth := int64(1) // of the steps with this name
		for _, before := range steps[:i] {
			if before == name {
				nth++
			}
		}
		t.Run(fmt.Sprintf("%d %s", i, name), func(t *testing.T) {
			b := newFixture(t, d)
			before, after := scenario()
			b.commit(load.Sweep{}, before...)
			old := b.snapshot()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var seen atomic.Int64 // atomic, because a destination may clean up in the background
			b.reopenWith(func(at string) error {
				if at == name && seen.Add(1) == nth {
					return fail(cancel)
				}
				return nil
			})
			b.run(2)
			failed := b.attempt(ctx, after)
			c, err := b.dest.Cursor(t.Context(), b.key)
			require.NoError(t, err)
			if c == b.cursor {
				require.Error(t, failed)
				require.Equal(t, old, b.snapshot())
			}
			b.reopen()
			if c == b.cursor {
				require.Equal(t, old, b.snapshot(), "after reopening")
				require.NoError(t, b.attempt(t.Context(), after))
			}
			rows := b.rows("people", schemas.ColDeletedAt)
			require.ElementsMatch(t, []Row{
				{"id": "1", "name": "ann"}, {"id": "2", "name": "bea", "age": "7"}, {"id": "x", "name": "eve"},
				{"id": "3", "name": "cid", schemas.ColDeletedAt: b.when()},
			}, rows)
			require.Equal(t, []Row{{"sku": "z"}}, b.rows("people__items"))
		})
	}
}

func testEveryStep(t *testing.T, d Driver) {
	everyStep(t, d, 1, func(func()) error { return errors.New("broken on purpose") })
}

func testCancelled(t *testing.T, d Driver) {
	every := 1
	if testing.Short() {
		every = 3
	}
	everyStep(t, d, every, func(cancel func()) error { cancel(); return nil })
}
