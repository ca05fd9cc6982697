package extract

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A server that treats unknown parameters as filters returns no records for any of them.
// Where its list has one record, that shows no way to the next page: once the list has
// more, it is read whole, or its end is in doubt.
func TestOneRecordOfAServerThatFiltersByUnknownParameters(t *testing.T) {
	for _, param := range []string{"pageNumber", "blatt"} {
		n := 1
		s := own("x.things")
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			from := 7 * (number(r, param, 1) - 1)
			for name := range r.URL.Query() {
				if name != param {
					from = n
				}
			}
			fmt.Fprintf(w, `{"data":%s}`, rows(from, from+7, n))
		}, s)
		c, one := learn(t, f, s)
		require.Equal(t, wanted(1), one.ids())
		n = 15
		r, err := read(f.Client, c.Apply(s), "")
		require.NoError(t, err)
		if param == "blatt" {
			require.True(t, r.end.Unshown, "%+v", r.end)
			continue
		}
		require.Equal(t, wanted(15), r.ids())
	}
}
