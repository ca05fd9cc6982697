package loadtest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

var (
	berlin = load.Origin{Source: "berlin", Address: "https://berlin.example"}
	boston = load.Origin{Source: "boston", Address: "https://boston.example"}
)

func (b *fixture) claims(o load.Origin) { b.pass.Claim = load.Claim{Table: "people", Origin: o} }

func (b *fixture) writes(n int, name string) error {
	claim := b.pass.Claim
	b.run(n)
	b.pass.Claim = claim
	return b.tryCommit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", name)}})
}

func (b *fixture) other(k state.Key) *fixture {
	out := *b
	out.key, out.cursor, out.count = k, "", 100
	return &out
}

func (b *fixture) refused(err error, moved bool, says ...string) {
	b.Helper()
	e, ok := errors.AsType[*load.OwnerError](err)
	require.True(b, ok, "%v", err)
	require.Equal(b, moved, e.Moved(), "%v", err)
	for _, text := range says {
		require.ErrorContains(b, err, text)
	}
}

// testOwner lets a second writer write to a table that has an owner. In each case, the second writer differs from the
// owner in one way. It must not be able to write anything.
func testOwner(t *testing.T, d Driver) {
	for _, c := range []struct {
		name  string
		key   state.Key // zero: the owner's key
		from  load.Origin
		moved bool // both sources may be the same workspace
		says  []string
	}{
		{name: "a second pipeline", key: state.Key{Pipeline: "hourly", Stream: orders.Stream}, from: berlin, says: []string{"pipeline nightly", "pipeline hourly"}},
		{name: "a second source", from: boston, says: []string{"source berlin at https://berlin.example", "source boston at https://boston.example"}},
		{name: "another address", from: load.Origin{Source: "berlin", Address: boston.Address}, moved: true, says: []string{"berlin at https://berlin.example", "now at https://boston.example"}},
		{name: "another name", from: load.Origin{Source: "boston", Address: berlin.Address}, moved: true, says: []string{"source berlin", "now called boston"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t, d)
			b.claims(berlin)
			require.NoError(t, b.writes(1, "ann"))
			before := b.snapshot()
			b.reopen()
			second := b.other(c.key)
			if c.key == (state.Key{}) {
				second = b.other(b.key)
				second.cursor = b.cursor
			}
			second.claims(c.from)
			second.refused(second.writes(2, "bob"), c.moved, c.says...)
			require.Equal(t, before, b.snapshot(), "nothing is written")
			require.NoError(t, b.writes(3, "amy"), "the owner continues")
			b.reopen()
			require.Equal(t, []Row{{"id": "1", "name": "amy"}}, b.rows("people"))
			b.owned(berlin)
		})
	}
}

func (b *fixture) owned(o load.Origin) {
	b.Helper()
	s, err := b.dest.StreamState(b.Context(), b.key, "people")
	require.NoError(b, err)
	require.NotNil(b, s.Owner)
	require.Equal(b, load.Owner{Pipeline: b.key.Pipeline, Stream: b.key.Stream, Origin: o}, *s.Owner)
}

func testOwnerControls(t *testing.T, d Driver) {
	t.Run("the same owner several times", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		for n, name := range []string{"ann", "amy", "art"} {
			require.NoError(t, b.writes(n+1, name))
			b.reopen()
		}
		b.owned(berlin)
		owners := 0
		for _, r := range b.driver.Rows(t, b.dest, load.Changes.Name) {
			if r["action"] == load.ActionOwner {
				owners++
				require.Equal(t, "people", r["table"])
			}
		}
		require.Equal(t, 1, owners, "the owner is recorded once")
	})
	t.Run("two pipelines with different streams", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		require.NoError(t, b.writes(1, "ann"))
		second := b.other(state.Key{Pipeline: "hourly", Stream: "sales.quotes"})
		quotes := root("quotes", []string{"id"}, people.Columns.Field(0), people.Columns.Field(1))
		second.pass.Claim = load.Claim{Table: "quotes", Origin: boston}
		require.NoError(t, second.tryCommit(load.Sweep{}, put{quotes, []Row{person(b.pass.Run, 0, "1", "bob")}}))
		require.NoError(t, b.writes(2, "amy"))
	})
	t.Run("the owner's cursor was reset", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		require.NoError(t, b.writes(1, "ann"))
		x := b.begin()
		require.NoError(t, x.Commit(t.Context(), ""))
		b.cursor = ""
		b.reopen()
		b.claims(boston)
		require.NoError(t, b.writes(2, "bob"))
		b.owned(boston)
	})
	t.Run("several sources share the tables", func(t *testing.T) {
		if !sharing(t, d) {
			t.Skip("tables cannot be shared")
		}
		_, all := workspaces(t, d, "berlin", "boston")
		for n := 1; n < 3; n++ {
			for i, o := range []load.Origin{berlin, boston} {
				all[i].claims(o)
				require.NoError(t, all[i].writes(n, o.Source))
			}
		}
		second := all[0].other(state.Key{Pipeline: "hourly", Stream: orders.Stream})
		second.refused(second.writes(3, "bob"), false, "pipeline nightly", "pipeline hourly")
		require.NoError(t, all[1].writes(4, "bea"))
	})
}

// testAdopt takes a table over. After that the previous owner can write nothing, even in a transaction that is
// already open.
func testAdopt(t *testing.T, d Driver) {
	adopt := func(b *fixture, next state.Cursor) {
		b.pass.Claim.Adopt = true
		x := b.begin()
		require.NoError(b, x.Commit(b.Context(), next))
		b.cursor, b.pass.Claim.Adopt = next, false
	}
	t.Run("the new owner's clock is behind", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		require.NoError(t, b.writes(1, "ann"))
		b.claims(boston)
		now := b.pass.Now
		b.pass.Now = func() time.Time { return morning.Add(-24 * time.Hour) }
		adopt(b, b.cursor)
		b.pass.Now = now
		b.owned(boston)
	})
	t.Run("another address", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		require.NoError(t, b.writes(1, "ann"))
		old := b.other(b.key)
		old.cursor = b.cursor
		b.claims(boston)
		adopt(b, b.cursor)
		b.owned(boston)
		require.NoError(t, b.writes(2, "bob"))
		old.claims(berlin)
		require.Error(t, old.writes(3, "old"))
		require.Equal(t, []Row{{"id": "1", "name": "bob"}}, b.rows("people"))
	})
	t.Run("another pipeline", func(t *testing.T) {
		b := newFixture(t, d)
		b.claims(berlin)
		require.NoError(t, b.writes(1, "ann"))
		second := b.other(state.Key{Pipeline: "hourly", Stream: orders.Stream})
		second.claims(berlin)
		adopt(second, "")
		second.owned(berlin)
		require.NoError(t, second.writes(2, "bob"))
		require.Error(t, b.writes(3, "old"), "the cursor of the previous owner was reset")
		b.cursor = ""
		b.refused(b.writes(3, "old"), false, "pipeline hourly")
		b.reopen()
		second.dest = b.dest
		require.NoError(t, second.writes(4, "bea"))
		require.Equal(t, []Row{{"id": "1", "name": "bea"}}, second.rows("people"))
	})
}

func testStanding(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.claims(berlin)
	at := func() load.StreamState {
		s, err := b.dest.StreamState(t.Context(), b.key, "people")
		require.NoError(t, err)
		return s
	}
	require.Equal(t, load.StreamState{}, at())
	b.commit(load.Sweep{}, put{table: people})
	require.True(t, at().Empty)
	require.NoError(t, b.writes(2, "ann"))
	s := at()
	require.False(t, s.Empty)
	require.Equal(t, runID(1), s.Made)
	require.Empty(t, s.Gone)
	if d.Drop == nil {
		return
	}
	d.Drop(t, b.dest, "people")
	b.reopen()
	require.Equal(t, []string{"people"}, at().Gone)
	require.NoError(t, b.writes(3, "bob"))
	s = at()
	require.Empty(t, s.Gone)
	require.Equal(t, runID(3), s.Made, "the new table was made by the later run")
}
