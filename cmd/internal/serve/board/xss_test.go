package board_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// payloads are texts that would run code if a page contained them unescaped, as markup, a URL, an attribute, a style or
// a script. They call ran(), and the browser reports each call to the test.
func payloads() []string {
	run := "ran('%d')"
	elements := []string{
		"<script>%s</script>", "<ScRiPt >%s</sCrIpT >", "<script src=data:,%s></script>", "<script type=module>%s</script>",
		"<img src=x onerror=%s>", "<img/src=x/onerror=%s>", "<svg onload=%s>", "<svg><script>%s</script></svg>", "<svg><animate onbegin=%s attributeName=x dur=1s>",
		"<body onload=%s>", "<iframe src=javascript:%s>", "<iframe srcdoc='<script>parent.%s</script>'>", "<object data=javascript:%s>", "<embed src=javascript:%s>",
		"<a href=javascript:%s autofocus>x</a>", "<math><mtext></mtext><img src=x onerror=%s></math>", "<details open ontoggle=%s>", "<input autofocus onfocus=%s>",
		"<video><source onerror=%s></video>", "<audio src=x onerror=%s>", "<marquee onstart=%s>", "<style>@import 'javascript:%s';</style>", "<link rel=stylesheet href='data:,x' onerror=%s>",
		"<meta http-equiv=refresh content='0;url=javascript:%s'>", "<base href=javascript:%s//>", "<form><button formaction=javascript:%s autofocus>x", "<template><script>%s</script></template>",
		"<noscript><p title=\"</noscript><img src=x onerror=%s>\">",
	}
	breaks := []string{"", "\">", "'>", "</title>", "</textarea></script>", "--><!-- -->", "]]>", "</desc></title></svg>"}
	var all []string
	add := func(form string) {
		all = append(all, strings.ReplaceAll(form, "%s", fmt.Sprintf(run, len(all))))
	}
	for i, e := range elements {
		for j := range 6 {
			add(breaks[(i+j)%len(breaks)] + e)
		}
	}
	for _, p := range []string{
		"javascript:%s", "JaVaScRiPt:%s", " javascript:%s", "java\tscript:%s", "data:text/html,<script>%s</script>", "vbscript:%s", "//javascript:%s", "/../javascript:%s",
		"\" onmouseover=%s x=\"", "' onfocus=%s autofocus '", "\" style=\"animation-name:x\" onanimationstart=%s \"", "x onerror=%s", "`;%s;`", "\\\";%s;//", "\\u003cscript\\u003e%s\\u003c/script\\u003e",
		"{{%s}}", "{{.Mark}}<script>%s</script>", "${%s}", "<%= %s %>", "{%% %s %%}", "&lt;script&gt;%s&lt;/script&gt;", "&#60;script>%s&#60;/script>", "%3Cscript%3E%s%3C/script%3E",
		"\x00<script>%s</script>", "<scr\x00ipt>%s</script>", "\xff\xfe<script>%s</script>", "<\u0131mg src=x onerror=%s>", "\u202e<script>%s</script>", "\ufeff<script>%s</script>", "＜script＞%s＜/script＞",
		"url(javascript:%s)", "expression(%s)", "#<script>%s</script>", "?x=<script>%s</script>", "x\r\nSet-Cookie: a=b\r\n\r\n<script>%s</script>", "data: {}\n\nevent: change\ndata: <script>%s</script>",
	} {
		add(p)
	}
	return all
}

// The constant odd is a script that counts elements that load or run something, event attributes, and URLs that run
// code. Our pages have none of these.
const odd = `(() => {
  const found = [];
  for (const el of document.querySelectorAll("*")) {
    if (el.closest(".uplot")) continue; // drawn by a script of ours
    const own = el.matches("head > script[src^='/assets/'], textarea[data-schema], head > link[href^='/assets/'], .brand > img[src^='/assets/'], head > meta, head > noscript");
    if (!own && el.matches("script, img, iframe, object, embed, base, link, meta, style, template, video, audio, marquee, math, animate, foreignObject, textarea")) found.push(el.outerHTML.slice(0, 200));
    for (const a of el.attributes) {
      if (/^on/i.test(a.name) || a.name === "style" || a.name === "srcdoc") found.push(a.name + " in " + el.outerHTML.slice(0, 200));
      if (/^(href|src|action|formaction|data|xlink:href)$/i.test(a.name) && new URL(a.value, location.href).origin !== location.origin) found.push(a.name + "=" + a.value);
    }
  }
  return found;
})()`

// None of the payloads runs. Without the content security policy, escaping is the only protection, and it is enough.
// With the policy, the browser reports no violation.
func TestNothingRuns(t *testing.T) {
	all := payloads()
	require.GreaterOrEqual(t, len(all), 200)
	n := 0
	f := telling(len(all), func(string) string { n++; return all[n%len(all)] })
	// Each text is also the name of a pipeline and of a stream, and the id of a run, which all have their own
	// pages.
	for i := range f.pipelines {
		p := all[i]
		f.pipelines[i].Name, f.streams[i].Pipeline, f.streams[i].Name, f.runs[i].ID, f.runs[i].Pipeline = p, p, p, p, p
	}
	s := boardOf(t, f, "")
	for _, bypass := range []bool{true, false} {
		if testing.Short() && !bypass {
			break // a short test checks only the escaping
		}
		v := tab(t)
		v.run(t, call(page.SetBypassCSP, page.SetBypassCSPParams{Enabled: bypass}), call(runtime.AddBinding, runtime.AddBindingParams{Name: "ran"}))
		subjects := 1
		if !testing.Short() {
			subjects = len(all)
		}
		for _, path := range hostile(f, subjects) {
			v.run(t, chromedp.Navigate(s.URL+path))
			require.Empty(t, eval[[]string](t, v, odd), path)
			v.run(t, chromedp.Evaluate[chromedp.Void](`for (const el of document.querySelectorAll("main *")) for (const e of ["mouseover", "focus", "error", "toggle"]) el.dispatchEvent(new Event(e))`))
		}
		complaints, executed := v.heard()
		require.Empty(t, executed)
		if !bypass {
			require.Empty(t, slices.DeleteFunc(complaints, func(c string) bool { return !strings.Contains(c, "Content Security Policy") }))
		}
	}
}

func hostile(f *told, subjects int) []string {
	all := []string{"/", "/pipelines", "/runs?limit=200", "/streams", "/rejects?limit=200", "/schema?limit=200", "/webhooks", "/rate", "/history?range=24h", "/history/series?by=source&limit=200", "/history/series?by=pipeline", "/graph?limit=200", "/history?stream=" + escape(payloads()[1]), "/runs?limit=200&offset=200", "/streams?offset=200",
		"/rejects?stream=" + escape(payloads()[0]), "/runs?pipeline=" + escape(`"><img src=x onerror=ran('q')>`), "/?said=" + escape("<script>ran('s')</script>"), "/nothing/" + escape("<script>ran('n')</script>")}
	for i := range subjects {
		p := strings.ReplaceAll(escape(f.pipelines[i].Name), "+", "%20")
		all = append(all, "/pipelines/"+p, "/pipelines/"+p+"/streams/"+p, "/runs/"+p)
	}
	return all
}
