package extract

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// If the list has one record, an empty answer does not show how it is paged. Later the list has more records. Then it
// is read completely, or the pass reports that its end is uncertain.
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
			require.True(t, r.end.OnePageOnly, "%+v", r.end)
			continue
		}
		require.Equal(t, wanted(15), r.ids())
	}
}

func TestLinkWhoseParametersBelongTogether(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		from, next := 0, "null"
		if q.Has("after") || q.Has("session") {
			from = 33
		}
		if q.Get("session") == "abc" && q.Has("after") {
			fmt.Sscan(strings.TrimPrefix(q.Get("after"), "tok"), &from)
		}
		if from+7 < 33 {
			next = fmt.Sprintf(`"http://h/x?after=tok%d&session=abc"`, from+7)
		}
		fmt.Fprintf(w, `{"data":%s,"next":%s}`, rows(from, from+7, 33), next)
	}, s)
	_, r := learn(t, f, s)
	require.Equal(t, wanted(33), r.ids())
}
