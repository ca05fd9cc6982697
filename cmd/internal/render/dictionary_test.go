package render

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// dictionaryPage writes the page of a dictionary with two tables, and returns its address.
func dictionaryPage(t *testing.T) string {
	t.Helper()
	column := func(name, meaning string) ColumnDoc {
		return ColumnDoc{Name: name, Type: "text", Source: "/" + name, Meaning: meaning}
	}
	d := Dictionary{Destination: "warehouse", Kind: "duckdb"}
	d.Add("CRM", TableDoc{Name: "crm_leads", Stream: "crm.leads", Mode: "merge", Columns: []ColumnDoc{column("stage", "where the lead is"), column("owner", strings.Repeat("long", 60))}})
	d.Add("Sales", TableDoc{Name: "sales_invoices", Stream: "sales.invoices", Mode: "merge", Columns: []ColumnDoc{column("total", "</script><b>with tax</b>"), column("owner", "who wrote it")}})
	var out bytes.Buffer
	require.NoError(t, WriteHTML(&out, d))
	require.Equal(t, 1, strings.Count(out.String(), "</script>"), "texts of the source must not end the script")
	file := filepath.Join(t.TempDir(), "dictionary.html")
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
	return "file://" + file
}

// TestDictionaryInBrowser opens the page in a browser. The content security policy allows the page's own script. A search
// shows only the matching tables and columns, an address opens its table, and the page fits a phone.
func TestDictionaryInBrowser(t *testing.T) {
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if p, err := exec.LookPath(name); err == nil && browser == "" {
			browser = p
		}
	}
	if browser == "" {
		t.Skip("no browser")
	}
	address := dictionaryPage(t)
	o := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("disable-dev-shm-usage", true))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), o...)
	defer stop()
	ctx, stopTab := chromedp.NewContext(alloc)
	defer stopTab()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	eval := func(script string) string {
		t.Helper()
		got, err := chromedp.Run(ctx, chromedp.Evaluate[string](script))
		require.NoError(t, err)
		return got
	}
	visit := func(hash string) {
		t.Helper()
		require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(address+hash)))
	}
	const shown = `[...document.querySelectorAll("details")].filter(t => !t.hidden).map(t => t.id + (t.open ? " open" : "") + ": " +
		[...t.querySelectorAll("tr:not([hidden]) td:first-child")].map(c => c.textContent).join(" ")).join("; ")`
	phone := func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: 360, Height: 800, DeviceScaleFactor: 1, Mobile: true})
		return err
	}
	require.NoError(t, chromedp.Do(ctx, chromedp.Func(phone)))

	visit("")
	require.Equal(t, "crm_leads: stage owner; sales_invoices: total owner", eval(shown))
	require.Equal(t, "false", eval(`String(document.querySelector(".search").hidden)`), "the script has run")
	eval(`document.getElementById("open").click(); ""`)
	require.Equal(t, "true", eval(`String(document.documentElement.scrollWidth <= innerWidth)`), "the page must fit a phone")
	visit("#sales_invoices")
	require.Equal(t, "crm_leads: stage owner; sales_invoices open: total owner", eval(shown))
	visit("#search=OWNER%20sales")
	require.Equal(t, "sales_invoices open: owner", eval(shown))
	visit("#search=with%20tax")
	require.Equal(t, "sales_invoices open: total", eval(shown))
}
