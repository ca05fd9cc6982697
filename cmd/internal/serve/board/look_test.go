package board_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

func escape(s string) string { return url.QueryEscape(s) }

func plain(s string) string { return s }

// TestLooks: every view in both colour schemes, at a desk and on a phone, without
// a complaint of the browser and without a flaw that can be measured.
func TestLooks(t *testing.T) {
	f := telling(6, plain)
	s := serve(t, f, "")
	v := tab(t)
	all := allLooks()
	if testing.Short() {
		all = []looks{all[0], all[3]} // each scheme and each screen once
	}
	for _, l := range all {
		v.look(t, l)
		for _, path := range pages(f) {
			name := strings.Trim(strings.NewReplacer("/pipelines/nightly/streams/crm.leads", "stream", "/pipelines/nightly", "pipeline", "/runs/"+f.runs[0].ID, "run").Replace(path), "/")
			if name == "" {
				name = "now"
			}
			v.run(t, chromedp.Navigate(s.URL+path), chromedp.WaitReady(chromedp.CSS("#main")))
			v.picture(t, name+"-"+l.name)
			require.Empty(t, eval[[]string](t, v, flaws), "%s %s", path, l.name)
		}
	}
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}
