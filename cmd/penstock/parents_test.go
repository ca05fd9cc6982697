//go:build cgo && duckdb_arrow

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
)

// rarely is a configuration that reads child streams almost only for changed parents, so that a wrongly stored
// parent stays wrong.
const rarely = `streams:
  v2.contact: {reread: 10000}
  crm.lead_detail: {reread: 10000}
  sales.invoice: {reread: 10000}
`

// rarely adds these settings to the platform's configuration.
func (p *platform) rarely(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(p.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.config(), append(b, rarely...), 0o600))
}

// TestUnchangedParents: what each destination stores about the parents is enough to request only the changed
// ones, and the tables finally equal the source.
func TestUnchangedParents(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, to target) {
		p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: 3}, `["v2.contacts", "v2.contact", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices", "sales.invoice"]`, to)
		p.rarely(t)
		requests := func() int {
			before := p.Stats().Requests
			begin := time.Now()
			code, out, errs := p.penstock(t, "sync")
			require.Equal(t, exitDone, code, "%s\n%s", out, errs)
			n := p.Stats().Requests - before
			t.Logf("%d requests in %v", n, time.Since(begin))
			if d := p.compare(t); len(d) > 0 {
				t.Fatal(strings.Join(d, "\n"))
			}
			return n
		}
		first := requests()
		p.change(t)
		second := requests()
		require.Less(t, second, first/3)
		third := requests()
		require.LessOrEqual(t, third, second)
		w := to.open(t)
		defer w.db.Close()
		require.Zero(t, w.count(t, "SELECT count(*) FROM _penstock_parents WHERE print IS NULL AND parent IN (SELECT '[' || id || ']' FROM sales_invoices WHERE _penstock_deleted_at IS NULL)"))
	})
}
