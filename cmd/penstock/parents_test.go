//go:build cgo && duckdb_arrow

package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// rarely is a configuration. With it, only every 10,000th run reads the child records of an unchanged parent. So if a
// destination stores wrong facts about a parent, the test notices: no later run hides the mistake by reading the child
// records again.
const rarely = `streams:
  v2.contact: {reread: 10000}
  crm.lead_detail: {reread: 10000}
  sales.invoice: {reread: 10000}
`

// rarely() adds the text of the constant rarely to the platform's configuration.
func (p *platform) rarely(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(p.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(p.config(), append(b, rarely...), 0o600))
}

// TestUnchangedParents checks, for each destination, that a run requests the child records of changed parents
// only, and that the tables equal the source in the end.
func TestUnchangedParents(t *testing.T) {
	t.Parallel()
	scale := 3
	if testing.Short() {
		scale = 2
	}
	onEach(t, func(t *testing.T, to target) {
		t.Parallel()
		p := newPlatform(t, sandbox.Options{NoLimits: true, Scale: scale}, `["v2.contacts", "v2.contact", "crm.pipelines", "crm.lead_board", "crm.lead_detail", "sales.invoices", "sales.invoice"]`, to)
		p.rarely(t)
		requests := func() int {
			before := p.Stats().Requests
			begin := time.Now()
			code, out, errs := p.penstock(t, "sync")
			require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
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
