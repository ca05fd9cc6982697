package extract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// A list fits on one page. If the list is requested in smaller pages, these pages show how the list continues. If the
// last smaller page announces no more records, the list has ended. If the server returns only a part of the list,
// smaller pages show nothing.
func TestOnlyPageInSmallerPages(t *testing.T) {
	link := servers.Signal{At: "header Link", Says: "next header"}
	cursor := servers.Signal{At: "/meta/after", Says: "next", End: "absent"}
	total := servers.Signal{At: "/total", Says: "total"}
	size := servers.Size{Param: "pageSize", Default: 10, Max: 50}
	tests := map[string]struct {
		paging  servers.Paging
		size    servers.Size
		Signals []servers.Signal
		open    bool // it is unknown whether the list has more records
	}{
		"a link":                 {servers.Paging{Kind: servers.KindToken, Param: "ctx"}, size, []servers.Signal{link}, false},
		"a cursor":               {servers.Paging{Kind: servers.KindToken, Param: "starting_after"}, size, []servers.Signal{cursor}, false},
		"an offset, a total":     {servers.Paging{Kind: servers.KindOffset, Param: "$skip"}, size, []servers.Signal{total}, false},
		"a link, and no size":    {servers.Paging{Kind: servers.KindToken, Param: "ctx"}, servers.Size{Default: 10}, []servers.Signal{link}, true},
		"no paging":              {servers.Paging{Kind: servers.KindCap}, size, nil, true},
		"no paging, and no size": {servers.Paging{Kind: servers.KindCap}, servers.Size{Default: 10}, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := negotiated(t, servers.Spec{Records: servers.Records{Count: 10}, Paging: tt.paging, Size: tt.size, Signals: tt.Signals})
			require.NoError(t, err)
			require.Len(t, r.records, 10)
			require.Equal(t, tt.open, r.end.Rule == RuleOnePage && r.end.Round, r.end.Rule)
		})
	}
}

func TestPageAfterTheOnlyPage(t *testing.T) {
	for name, paging := range map[string]servers.Paging{
		"keyset": {Kind: servers.KindKeyset, Param: "after_id", Bad: "empty"},
		"page":   {Kind: servers.KindPage, Param: "page", Base: 1, Beyond: servers.BeyondFirst},
	} {
		t.Run(name, func(t *testing.T) {
			for _, count := range []int{25, 29} {
				r, err := negotiated(t, servers.Spec{Records: servers.Records{Count: count, Key: "id"}, Paging: paging, Size: servers.Size{Param: "per_page", Default: 25, Max: 50}, Unknown: servers.UnknownFilter})
				if err == nil {
					require.Len(t, r.records, count)
				}
			}
		})
	}
}
