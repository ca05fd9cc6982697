package extract

import (
	"context"
	"errors"
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/schemas"
)

// Invariant 15
func TestStoppedRunDropsAnswer(t *testing.T) {
	s := schemas.Stream{Name: "x.things", Class: "list", Table: schemas.Table{Key: []string{"id"}}}
	errStop := errors.New("stopped by a signal")
	for _, stops := range []bool{false, true} {
		l := (&Client{seed: maphash.MakeSeed()}).newListReader(s, nil, &endpointTraits{})
		ctx, stop := context.WithCancelCause(t.Context())
		st, err := l.inspect(ctx, paging.Position{}, func(context.Context, paging.Position) (*answer, error) {
			d := new(jsondoc.Doc)
			if stops {
				stop(errStop)
			}
			return &answer{d: d}, d.Scan([]byte(`[{"id":1}]`))
		})
		if stops {
			require.ErrorIs(t, err, errStop)
		} else {
			require.NoError(t, err)
			require.Equal(t, 1, st.batch.N)
		}
		stop(nil)
	}
}
