package open

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
)

// counted is a destination that counts how often it is closed.
type counted struct {
	load.Destination
	closed int
}

func (c *counted) Close() error { c.closed++; return nil }

func TestDestinationPool(t *testing.T) {
	l := NewDestinationPool()
	var opened []*counted
	open := func(at int) load.Destination {
		d := config.Destination{At: config.Pos{Line: at}, Name: "w", URL: "duckdb:w.duckdb"}
		dest, err := l.open(d, func() (load.Destination, error) {
			c := &counted{}
			opened = append(opened, c)
			return c, nil
		})
		require.NoError(t, err)
		return dest
	}
	a, b := open(1), open(7)
	require.Len(t, opened, 1, "the position in the configuration makes no difference")
	require.Same(t, Whole(a), Whole(b))
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "the second Close of a handle does nothing")
	require.Zero(t, opened[0].closed, "another handle is still open")
	require.NoError(t, b.Close())
	require.Equal(t, 1, opened[0].closed)
	require.NoError(t, open(1).Close())
	require.Len(t, opened, 2, "after the last Close, the destination is opened again")
}
