package extract

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Bodies become much larger while many are requested in advance. The memory for them stays bounded, and every page
// arrives. // Invariant 6
func TestLargerBodies(t *testing.T) {
	const pages, small, large = 120, 40, 400 << 10
	s := list("x.things", "id")
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		p := number(r, "page", 1)
		text := "x"
		if p > small {
			text = strings.Repeat("x", large)
		}
		items(w, fmt.Sprintf(`[{"id":%d,"name":%q}]`, p, text), pages, p, pages)
	}, s)
	c.maxBytes = 4 << 20
	var most atomic.Int64
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most.Store(max(most.Load(), c.inFlight.Load()))
			}
		}
	})
	r, err := read(c.Client, s, "")
	close(stop)
	watch.Wait()
	require.NoError(t, err)
	require.Equal(t, wanted(pages), r.ids())
	require.LessOrEqual(t, most.Load(), c.maxBytes+4<<20, "only the body that is needed next may exceed the limit")
	require.LessOrEqual(t, c.requests.Load(), int64(3*pages))
	require.Zero(t, c.inFlight.Load())
}
