package board_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The committed bundles belong to the committed sources, and no file of them was edited by hand.
func TestBundlesAreCurrent(t *testing.T) {
	text, err := os.ReadFile("scripts/bundles.json")
	require.NoError(t, err)
	var record struct{ Inputs, Outputs map[string]string }
	require.NoError(t, json.Unmarshal(text, &record))
	for dir, sums := range map[string]map[string]string{"scripts": record.Inputs, "assets": record.Outputs} {
		require.NotEmpty(t, sums)
		for name, want := range sums {
			text, err := os.ReadFile(filepath.Join(dir, name))
			require.NoError(t, err)
			got := sha256.Sum256(text)
			require.Equal(t, want, hex.EncodeToString(got[:]), "%s/%s differs from scripts/bundles.json; run make assets", dir, name)
		}
	}
	require.Subset(t, record.Inputs, map[string]string{"package-lock.json": record.Inputs["package-lock.json"], "build.js": record.Inputs["build.js"]})
}

// The bundles work under the security policy of the dashboard: the browser reports no violation.
func TestBundlesObeyThePolicy(t *testing.T) {
	s := boardOf(t, telling(1, plain), "")
	const text = `<!doctype html><html lang="en"><title>bundles</title><link rel="icon" href="/assets/icon.svg">
<link rel="stylesheet" href="/assets/board.css"><link rel="stylesheet" href="/assets/charts.css">
<form action="/sent"><textarea name="sql" aria-label="SQL" data-schema="{&quot;dialect&quot;:&quot;DuckDB&quot;,&quot;tables&quot;:{&quot;crm_leads&quot;:[&quot;lead_id&quot;]}}">SELECT 1</textarea></form>
<div data-chart="{&quot;times&quot;:[1,2,3],&quot;series&quot;:[{&quot;label&quot;:&quot;rows&quot;,&quot;values&quot;:[4,5,6]}]}">4, 5, 6</div>
<script src="/assets/editor.js"></script><script src="/assets/charts.js"></script>`
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			s.board.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Security-Policy", s.do(t, "GET", "/", "").Header.Get("Content-Security-Policy"))
		_, _ = fmt.Fprint(w, text)
	}))
	t.Cleanup(page.Close)
	v := tab(t)
	v.run(t, chromedp.Navigate(page.URL))
	v.sees(t, `!!document.querySelector("[data-chart] canvas")`)
	v.sees(t, `getComputedStyle(document.querySelector("form > div").shadowRoot.querySelector(".cm-editor")).display === "flex"`)
	v.run(t, chromedp.Evaluate[chromedp.Void](`document.querySelector("form > div").shadowRoot.querySelector(".cm-content").focus()`),
		chromedp.KeyEvent("x"))
	v.sees(t, `document.querySelector("form > div").shadowRoot.querySelector(".cm-content").textContent.includes("x")`)
	complaints, _ := v.heard()
	require.Empty(t, complaints)
}
