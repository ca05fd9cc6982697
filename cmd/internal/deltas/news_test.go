package deltas

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// mute loses the answer to one commit of the stream `contacts`. If the field `leaves` is true, the next read of the
// cursor fails too.
type mute struct {
	load.Destination
	leaves      bool
	armed, away atomic.Bool
}

var errLine = errors.New("connection reset")

func (d *mute) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	tx, err := d.Destination.Begin(ctx, k, from, p)
	if k.Stream != "v2.contacts" {
		return tx, err
	}
	return &muteTx{tx, d}, err
}

func (d *mute) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	if d.away.Swap(false) {
		return "", errLine
	}
	return d.Destination.Cursor(ctx, k)
}

type muteTx struct {
	load.Tx
	of *mute
}

func (x *muteTx) Commit(ctx context.Context, next state.Cursor) error {
	err := x.Tx.Commit(ctx, next)
	if err == nil && x.of.armed.Swap(false) {
		x.of.away.Store(x.of.leaves)
		return errLine
	}
	return err
}

func TestDeltasWithoutAnAnswer(t *testing.T) {
	for name, leaves := range map[string]bool{"the destination answers again at once": false, "the destination answers again later": true} {
		t.Run(name, func(t *testing.T) {
			m, d := newModel(20), &mute{Destination: loadtest.NewMemory(nil), leaves: leaves}
			r := newDeltaRig(t, m, pipeline.Destination{Name: "warehouse", Destination: d})
			r.sync()
			r.midway(4, func() {
				for _, id := range []int{2, 15} {
					m.records[id] = 7
					m.send(m.event("updated", id))
				}
				delete(m.records, 3)
				m.send(m.event("deleted", 3))
				r.deltas.pace.rest = time.Hour
				m.served = func(int) error {
					m.served = nil
					d.armed.Store(true)
					return nil
				}
				rep, err := r.deltas.Apply(t.Context())
				require.NoError(t, err)
				require.False(t, d.armed.Load())
				if leaves {
					require.ErrorIs(t, rep.Trouble, errLine)
				} else {
					require.NoError(t, rep.Trouble)
					require.Equal(t, 3, rep.Applied)
				}
			})
			r.sync()
			require.Nil(t, m.between, "the events came during the pass")
			require.Equal(t, "webhook", rowOf(t, d, "15")["_penstock_via"], "no page has written the record again")
			r.equal()
			r.deltas.resting = map[string]*rest{}
			r.apply()
			r.equal()
			require.Zero(t, r.sync().Totals().Counts.Written)
		})
	}
}
