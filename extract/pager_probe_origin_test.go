package extract

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// The parameter is named like an offset, but counts pages. A long list has a page 10. So offset=10 returns other
// records, whether the parameter counts records or pages.
func TestOffsetThatCountsPagesOfALongList(t *testing.T) {
	for _, zero := range []bool{true, false} {
		for _, said := range []string{"", `"total":305,`, `"more":%t,`, `"offset":%d,`} {
			t.Run(fmt.Sprintf("%s from 0: %t", said, zero), func(t *testing.T) {
				s := own("x.things")
				f := serve(t, func(w http.ResponseWriter, r *http.Request) {
					first := 1
					if zero {
						first = 0
					}
					p := number(r, "offset", first)
					from, sign := 10*(p-first), said
					switch said {
					case `"more":%t,`:
						sign = fmt.Sprintf(said, from+10 < 305)
					case `"offset":%d,`:
						sign = fmt.Sprintf(said, p)
					}
					fmt.Fprintf(w, `{%s"data":%s}`, sign, rows(from, from+10, 305))
				}, s)
				c, r := learn(t, f, s)
				require.Equal(t, wanted(305), r.ids(), "%+v", c)
			})
		}
	}
}
