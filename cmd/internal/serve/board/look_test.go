package board_test

import (
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func escape(s string) string { return url.QueryEscape(s) }

func plain(s string) string { return s }

func TestLooks(t *testing.T) {
	f := telling(6, plain)
	s := boardOf(t, f, "")
	v := tab(t)
	s.lookAround(t, v, "told", pages(f), allLooks()[0], allLooks()[3])
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}

// lookAround opens each page in each look. A look is a width of the screen with light or dark colours. In a short test,
// lookAround opens each page in only one of the looks that it gets as arguments.
func (s *served) lookAround(t *testing.T, v *visitor, name string, paths []string, short ...looks) {
	t.Helper()
	all := allLooks()
	if testing.Short() {
		all = short
	}
	for i, l := range all {
		v.look(t, l)
		for j, path := range paths {
			if testing.Short() && j%len(all) != i {
				continue
			}
			v.run(t, chromedp.Navigate(s.URL+path), chromedp.WaitReady(chromedp.CSS("#main")))
			v.picture(t, name+strings.ReplaceAll(path, "/", "-")+"-"+l.name)
			require.Empty(t, eval[[]string](t, v, flaws), "%s %s", path, l.name)
		}
	}
}

// With two hundred streams and ten thousand runs, no page is larger than half a megabyte.
func TestPagesStaySmall(t *testing.T) {
	f := telling(200, plain)
	for i := range 10_000 {
		r := f.runs[i%200]
		r.ID = fmt.Sprintf("x%011d", i)
		f.runs = append(f.runs, r)
	}
	f.now.Running = f.now.Running[:3]
	f.pipelines, f.webhooks = f.pipelines[:5], f.webhooks[:2]
	s := boardOf(t, f, "")
	for _, path := range pages(f) {
		text, err := io.ReadAll(s.do(t, "GET", path, "").Body)
		require.NoError(t, err)
		require.Less(t, len(text), 500_000, path)
	}
}
