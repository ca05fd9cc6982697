package extract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox/servers"
)

// A list that is paged by the time of its records may lose records with equal times. Only a total would show this, so a
// list without a total is not accepted.
func TestListsByTime(t *testing.T) {
	total, more := servers.Signal{At: "/total", Says: "total"}, servers.Signal{At: "/has_more", Says: "more"}
	for _, order := range []string{servers.OrderOldest, servers.OrderNewest} {
		names := []string{"since", "after", "created_after", "start_time", "from"}
		if order == servers.OrderNewest {
			names = []string{"before", "until", "created_before", "end_time"}
		}
		for _, unknown := range []string{"", servers.UnknownFilter, servers.UnknownRefuse} {
			for _, name := range names {
				for _, signal := range []servers.Signal{total, more} {
					t.Run(name+" "+unknown+signal.At, func(t *testing.T) {
						r, err := negotiated(t, servers.Spec{
							Records: servers.Records{Count: 45, Times: true, Order: order}, Size: servers.Size{Default: 10},
							Paging: servers.Paging{Kind: servers.KindMoment, Param: name}, Signals: []servers.Signal{signal}, Unknown: unknown,
						})
						if signal.At == more.At {
							require.ErrorContains(t, err, "more than its first page")
							return
						}
						require.NoError(t, err)
						require.Len(t, r.records, 45)
					})
				}
			}
		}
	}
}

func TestWrappedRecordsByID(t *testing.T) {
	for _, param := range []string{"after_id", "no_usual_name"} {
		for _, unknown := range []string{"", servers.UnknownFilter} {
			t.Run(param+" "+unknown, func(t *testing.T) {
				r, err := negotiated(t, servers.Spec{
					Records: servers.Records{Count: 45, Form: servers.FormWrapped}, Size: servers.Size{Default: 10}, Unknown: unknown,
					Paging: servers.Paging{Kind: servers.KindKeyset, Param: param}, Signals: []servers.Signal{{At: "/has_more", Says: "more"}},
				})
				if param == "no_usual_name" {
					require.ErrorContains(t, err, "more than its first page")
					return
				}
				require.NoError(t, err)
				require.Len(t, r.records, 45)
			})
		}
	}
}
