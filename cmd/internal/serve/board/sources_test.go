package board_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func TestSources(t *testing.T) {
	f := telling(5000, plain)
	s := boardOf(t, f, "")
	v := tab(t)
	for _, l := range []looks{allLooks()[0], allLooks()[3]} {
		v.look(t, l)
		v.run(t, chromedp.Navigate(s.URL+"/sources"), chromedp.WaitReady(chromedp.CSS("#list")))
		require.Equal(t, 50, eval[int](t, v, `document.querySelectorAll("#list tbody tr").length`))
		require.Equal(t, "failed", eval[string](t, v, `document.querySelector("#list .badge").textContent`))
		require.Empty(t, eval[[]string](t, v, flaws), l.name)
		v.picture(t, "sources-"+l.name)
		v.run(t, chromedp.Navigate(s.URL+"/sources?source=acme_1234"), chromedp.WaitReady(chromedp.CSS("#list")))
		require.Equal(t, 1, eval[int](t, v, `document.querySelectorAll("#list tbody tr").length`))
		v.clicks(t, `button[aria-label="Pause acme_1234"]`, ".said")
		v.run(t, chromedp.Navigate(s.URL+"/sources?status=paused"))
		v.clicks(t, `button[aria-label="Resume acme_2"]`, ".said")
	}
	require.Equal(t, []string{"pause source acme_1234", "resume source acme_2", "pause source acme_1234", "resume source acme_2"}, f.noted())
}
