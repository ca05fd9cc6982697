package extract

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

func strict(fault func(r *http.Request) int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if status := fault(r); status != 0 || q.Has("page") && (q.Has("page[number]") || q.Has("page[offset]")) {
			w.WriteHeader(max(status, http.StatusInternalServerError))
			fmt.Fprint(w, `{"message":"expected Hash (got String) for param"}`)
			return
		}
		p := number(r, "page", 1)
		fmt.Fprintf(w, `{"data":%s}`, rows((p-1)*10, p*10, 25))
	}
}

func TestProbesThatMakeServersFail(t *testing.T) {
	for name, status := range map[string]int{"internal error": 500, "not implemented": 501, "bad gateway": 502, "unavailable": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := own("x.things")
			f := serveTrying(t, 10, strict(func(r *http.Request) int {
				if q := r.URL.Query(); q.Has("offset") || q.Has("per_page") {
					return status
				}
				return 0
			}), s)
			begin := time.Now()
			c, r := learn(t, f, s)
			require.Equal(t, wanted(25), r.ids())
			require.LessOrEqual(t, c.Requests, 24, "%+v", c.Facts)
			require.Less(t, time.Since(begin), 15*time.Second)
		})
	}
}

func TestProbesDuringFaults(t *testing.T) {
	seen := map[string]bool{}
	s := own("x.things")
	f := serveTrying(t, 10, strict(func(r *http.Request) int {
		if q := r.URL.RawQuery; q != "" && !seen[q] {
			seen[q] = true
			return http.StatusServiceUnavailable
		}
		return 0
	}), s)
	c, r := learn(t, f, s)
	require.Equal(t, wanted(25), r.ids())
	require.Equal(t, "page", c.Pagination.Page)

	requested := 0
	f = serveTrying(t, 2, strict(func(*http.Request) int {
		if requested++; requested > 1 {
			return http.StatusServiceUnavailable
		}
		return 0
	}), s)
	_, err := f.Negotiate(t.Context(), s)
	classIs(t, err, wire.Transient)
}
