package extract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

func TestParametersOneByOne(t *testing.T) {
	total := servers.Signal{At: "/total", Says: "total"}
	next := servers.Signal{At: "/next", Says: "next", As: "number"}
	from := func(kind, param string, base int, beyond string) servers.Paging {
		return servers.Paging{Kind: kind, Param: param, Base: base, Beyond: beyond}
	}
	tests := map[string]struct {
		paging servers.Paging
		signal servers.Signal
		count  int
		lost   bool
	}{
		"an offset":                          {from(servers.KindOffset, "startAt", 0, servers.Beyond400), total, 50, false},
		"an offset from 1":                   {from(servers.KindOffset, "_start", 1, servers.BeyondFirst), total, 45, false},
		"a page":                             {from(servers.KindPage, "pageIndex", 1, servers.Beyond204), total, 45, false},
		"a page from 0":                      {from(servers.KindPage, "_page", 0, ""), total, 45, false},
		"pages 0 and 1, any other refused":   {from(servers.KindPage, "page", 0, servers.Beyond400), total, 11, false},
		"pages 0 and 1, any other not found": {from(servers.KindPage, "page_number", 0, servers.Beyond404), total, 20, false},
		"the number of the next page":        {from(servers.KindPage, "pageNo", 1, ""), next, 45, false},
		"the number of the next record":      {from(servers.KindOffset, "from", 0, ""), next, 45, false},
		"the id of the last record":          {from(servers.KindKeyset, "from_id", 0, ""), total, 45, false},
		"a parameter that no list uses":      {from(servers.KindPage, "blatt", 1, ""), total, 45, true},
	}
	for name, tt := range tests {
		for _, unknown := range []string{servers.UnknownFilter, servers.UnknownRefuse, ""} {
			t.Run(name+" "+unknown, func(t *testing.T) {
				l := servers.New(servers.Spec{
					Records: servers.Records{Count: tt.count, Key: "id"}, Envelope: servers.Envelope{Path: []string{"data"}},
					Paging: tt.paging, Size: servers.Size{Default: 10}, Signals: []servers.Signal{tt.signal}, Unknown: unknown,
				})
				s := own("x.things")
				f := serve(t, l.ServeHTTP, s)
				c, err := f.Negotiate(t.Context(), s)
				if tt.lost {
					require.ErrorContains(t, err, "more than its first page")
					return
				}
				require.NoError(t, err)
				r, err := read(f.Client, c.Apply(s), "")
				require.NoError(t, err)
				require.Len(t, r.records, tt.count)
			})
		}
	}
}
