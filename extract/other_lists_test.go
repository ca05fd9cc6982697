package extract

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSeveralLists(t *testing.T) {
	users := `[{"id":901,"name":"Ada"},{"id":902,"name":"Bob"}]`
	for name, format := range map[string]string{
		"the records are in an object beside the other list": `{"users":%[2]s,"topic_list":{"topics":%[1]s}}`,
		"the other list has the usual name":                  `{"items":%[2]s,"topics":%[1]s,"ok":true}`,
		"both lists have usual names":                        `{"results":%[2]s,"payload":{"rows":%[1]s},"ok":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				p := number(r, "page", 1)
				fmt.Fprintf(w, format, rows((p-1)*10, p*10, 35), users)
			}, s)
			_, r := learn(t, f, s)
			require.Equal(t, wanted(35), r.ids())
		})
	}
}

// The first list of the answer holds all records. The other list changes with each reading, or with the page parameter.
// Still, the first list is read.
func TestListThatIsWholeBesideOthers(t *testing.T) {
	requested := 0
	for name, other := range map[string]func(r *http.Request) string{
		"the other list always changes": func(*http.Request) string {
			requested++
			return fmt.Sprintf(`"items":%s,"recent":{"views":[{"id":%d}]}`, rows(0, 23, 23), requested)
		},
		"the path names the first list": func(r *http.Request) string {
			return fmt.Sprintf(`"things":%s,"posts":[{"id":%d}]`, rows(0, 23, 23), number(r, "page", 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := own("x.things")
			f := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{%s}`, other(r)) }, s)
			_, r := learn(t, f, s)
			require.Equal(t, wanted(23), r.ids())
		})
	}
}

func TestSeveralListsWithoutPages(t *testing.T) {
	body := `{"cats":[{"id":1},{"id":2}],"dogs":[{"id":3},{"id":4},{"id":5}],"ok":true}`
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
	_, err := f.Negotiate(t.Context(), s)
	require.ErrorContains(t, err, "no records found in an object of cats, dogs")

	s = own("x.cats")
	f = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
	_, r := learn(t, f, s)
	require.Equal(t, "1,2", r.ids())
}

func TestEmptyListThatThePathNames(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"users":[{"id":901,"name":"Ada"}],"things":[]}`)
	}, s)
	_, r := learn(t, f, s)
	require.Empty(t, r.ids())
}
