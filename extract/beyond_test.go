package extract

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

func negotiated(t *testing.T, spec servers.Spec) (reading, error) {
	t.Helper()
	spec.Records.Key, spec.Envelope.Path = "id", []string{"data"}
	s := own("x.things")
	f := serve(t, servers.New(spec).ServeHTTP, s)
	c, err := f.Negotiate(t.Context(), s)
	if err != nil {
		return reading{}, err
	}
	return read(f.Client, c.Apply(s), "")
}

func TestPageAfterTheEnd(t *testing.T) {
	tests := map[string]struct {
		paging  servers.Paging
		size    servers.Size
		Signals []servers.Signal
	}{
		"offsets, all records on a large page": {
			servers.Paging{Kind: servers.KindOffset, Param: "$skip"}, servers.Size{Param: "maxResults", Default: 10, Max: 100}, nil,
		},
		"offsets, with the number of records that remain": {
			servers.Paging{Kind: servers.KindOffset, Param: "start"}, servers.Size{Param: "limit", Default: 10, Max: 30}, []servers.Signal{{At: "/remaining", Says: "remaining"}},
		},
		"pages that state their number": {
			servers.Paging{Kind: servers.KindPage, Param: "page", Base: 1}, servers.Size{Default: 10}, []servers.Signal{{At: "/page", Says: "page"}},
		},
		"pages from 0 that state the next number": {
			servers.Paging{Kind: servers.KindPage, Param: "page"}, servers.Size{Default: 10},
			[]servers.Signal{{At: "/page", Says: "page"}, {At: "/next", Says: "next", As: "number", End: "absent"}},
		},
	}
	for name, tt := range tests {
		for _, beyond := range []string{servers.BeyondFirst, servers.BeyondEmpty} {
			t.Run(name+" "+beyond, func(t *testing.T) {
				tt.paging.Beyond = beyond
				r, err := negotiated(t, servers.Spec{Records: servers.Records{Count: 41}, Paging: tt.paging, Size: tt.size, Signals: tt.Signals})
				require.NoError(t, err)
				require.Len(t, r.records, 41)
			})
		}
	}
}

func TestFirstPageInTheMiddle(t *testing.T) {
	for name, h := range map[string]http.HandlerFunc{
		"offsets": func(w http.ResponseWriter, r *http.Request) {
			from := number(r, "offset", 0)
			if from == 20 {
				from = 0
			}
			fmt.Fprintf(w, `{"data":%s}`, rows(from, from+10, 45))
		},
		"pages": func(w http.ResponseWriter, r *http.Request) {
			p := number(r, "page", 1)
			if p == 3 {
				p = 1
			}
			fmt.Fprintf(w, `{"page":%d,"data":%s}`, p, rows((p-1)*10, p*10, 45))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, h, s)
			c, err := f.Negotiate(t.Context(), s)
			require.NoError(t, err)
			_, err = read(f.Client, c.Apply(s), "")
			require.Error(t, err)
			require.Regexp(t, "the page repeats an earlier one|requested page 3, got page 1", err.Error())
		})
	}
}

func TestBrokenConnectionAfterTheEnd(t *testing.T) {
	s := own("x.things")
	s.Key, s.RecordsKnown, s.Pagination = []string{"id"}, true, schemas.Pagination{Type: "page", Page: "page"}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		if p > 4 {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, `{"page":1,"data":%s}`, rows((p-1)%3*10, ((p-1)%3+1)*10, 30))
	}, s)
	_, err := read(f.Client, s, "")
	fault, ok := errors.AsType[*wire.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, wire.Transient, fault.Class, "%v", err)
	require.NotErrorIs(t, err, ErrShape)
}
