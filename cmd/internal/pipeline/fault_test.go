package pipeline

import (
	"context"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

type pages []extract.Page

func (p pages) Pages(context.Context, schemas.Stream, state.Cursor) iter.Seq2[extract.Page, error] {
	return func(yield func(extract.Page, error) bool) {
		for _, page := range p {
			if !yield(page, nil) {
				return
			}
		}
	}
}

func TestSourceViolatesTheContract(t *testing.T) {
	first := extract.Page{Records: []byte(`[{"id":1,"name":"a"}]`), Next: `{"page":1}`}
	last := extract.Page{Records: []byte(`[{"id":2,"name":"b"}]`), Next: `{"end":"x"}`,
		End: &extract.End{Rule: extract.RuleLastPage, Pages: 2, FirstTotal: -1, LastTotal: -1}}
	broken := extract.Page{Records: []byte(`[{"id":2,`), Next: `{"page":2}`}
	tests := []struct {
		name  string
		pages pages
		want  string
		rows  int
	}{
		{"no end", pages{first}, "the pages stopped before the end of the list", 1},
		{"no page", nil, "the pages stopped before the end of the list", 0},
		{"a page after the end", pages{first, last, first}, "page 3: a page came after the last page", 1},
		{"a page that is not JSON", pages{first, broken}, "map page 2", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil, sourcetest.Stream("crm_leads"))
			r.config.Source = tt.pages
			rep, err := r.run(context.Background())
			require.NoError(t, err)
			require.Equal(t, StatusFailed, rep.Streams[0].Status)
			require.ErrorContains(t, rep.Streams[0].Err, "crm_leads: "+tt.want)
			require.Empty(t, r.certificates("crm_leads"))
			require.Len(t, r.alive("crm_leads"), tt.rows)
		})
	}
}

// forgetful is a destination that omits one row of each merge from its counts.
type forgetful struct{ load.Destination }

func (d forgetful) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	tx, err := d.Destination.Begin(ctx, k, from, p)
	return forgetfulTx{tx}, err
}

type forgetfulTx struct{ load.Tx }

func (x forgetfulTx) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	out, err := x.Tx.Apply(ctx, s)
	out.Written--
	return out, err
}

func TestCountsThatDoNotAddUpFailTheStream(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 5), Size: 10}}, sourcetest.Stream("crm_leads"))
	r.config.Destinations = []Destination{{"warehouse", forgetful{r.memory}}}
	rep, err := r.run(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, rep.ExitCode())
	require.ErrorContains(t, rep.Streams[0].Err, "crm_leads to warehouse: counts do not add up: fetched 5, but written 4")
	require.Empty(t, r.memory.Rows("crm_leads"))
}
