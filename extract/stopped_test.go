package extract

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
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

// The server reports a temporary failure with status 200, and the run is stopped while the request waits to be
// repeated. The pass returns the error of the stop, because the request was not repeated. // Invariant 14
func TestStopDuringARetryOfAList(t *testing.T) {
	s := list("crm.leads", "id")
	s.Pagination = schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 2}
	errStop := errors.New("stopped by a signal")
	for _, stops := range []bool{false, true} {
		asked := make(chan struct{}, 1)
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if number(r, "page", 1) < 2 {
				_, _ = io.WriteString(w, `{"data":`+rows(0, 2, 9)+`}`)
				return
			}
			_, _ = io.WriteString(w, `{"success":false,"message":"Something went wrong"}`)
			select {
			case asked <- struct{}{}:
			default:
			}
		}, s)
		ctx, stop := context.WithCancelCause(t.Context())
		if stops {
			go func() { <-asked; stop(errStop) }()
		}
		var err error
		for _, err = range f.PagesOf(ctx, s, "", nil) { // the error comes last
		}
		stop(nil)
		if !stops {
			require.GreaterOrEqual(t, f.requests.Load(), int64(1+bodyRetry.Attempts), "the request is repeated")
			continue
		}
		require.ErrorIs(t, err, errStop)
		_, fault := errors.AsType[*wire.Error](err)
		require.False(t, fault, "%v", err)
		require.Equal(t, int64(2), f.requests.Load(), "the request was not repeated")
	}
}
