package extract

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of several lists in an answer, the records are those that answer to paging, or that
// are called like the path.
func TestSeveralLists(t *testing.T) {
	users := `[{"id":901,"name":"Ada"},{"id":902,"name":"Bob"}]`
	for name, format := range map[string]string{
		"one beside an object with the other": `{"users":%[2]s,"topic_list":{"topics":%[1]s}}`,
		"the other has the usual name":        `{"items":%[2]s,"topics":%[1]s,"ok":true}`,
		"two descriptions of members":         `{"results":%[2]s,"payload":{"rows":%[1]s},"ok":true}`,
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

// A list that is whole is taken although another list changes with each answer, or
// answers to the parameters of pages and is not called like the path.
func TestListThatIsWholeBesideOthers(t *testing.T) {
	asked := 0
	for name, other := range map[string]func(r *http.Request) string{
		"another one each time": func(*http.Request) string {
			asked++
			return fmt.Sprintf(`"items":%s,"recent":{"views":[{"id":%d}]}`, rows(0, 23, 23), asked)
		},
		"the path names it": func(r *http.Request) string {
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

// Of two lists without pages nobody can tell which one the records are, unless one is
// called like the path.
func TestSeveralListsWithoutPages(t *testing.T) {
	body := `{"cats":[{"id":1},{"id":2}],"dogs":[{"id":3},{"id":4},{"id":5}],"ok":true}`
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
	_, err := f.Negotiate(t.Context(), s, Convention{})
	require.ErrorContains(t, err, "no records found in an object of cats, dogs")

	s = own("x.cats")
	f = serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }, s)
	_, r := learn(t, f, s)
	require.Equal(t, "1,2", r.ids())
}

// The path's own word decides where one of the lists is empty at first.
func TestEmptyListThatThePathNames(t *testing.T) {
	s := own("x.things")
	f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"users":[{"id":901,"name":"Ada"}],"things":[]}`)
	}, s)
	_, r := learn(t, f, s)
	require.Empty(t, r.ids())
}
