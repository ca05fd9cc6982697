package parquet

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
)

func TestCatalogName(t *testing.T) {
	for _, c := range []struct{ stream, table, want string }{
		{"crm.leads", "crm_leads", "crm_leads"},
		{"crm.leads", "crm_leads__mails", "crm_leads__mails"},
		{"crm.leads", "a.b~2E", "a~2Eb~7E2E"},
		{"crm.leads", "_penstock_state", "_penstock_state__crm__leads"},
		{"hr.leave_types", "_penstock_rejects", "_penstock_rejects__hr__leave_types"},
		{"_run@nightly", "_penstock_runs", "_penstock_runs___run__nightly"},
		{"run.nightly", "_penstock_runs", "_penstock_runs__run__nightly"},
	} {
		require.Equal(t, c.want, CatalogName(c.stream, c.table))
	}
	require.Regexp(t, `^_penstock_runs___run_nightly_eu___[0-9a-f]{16}$`, CatalogName("_run@nightly-eu", "_penstock_runs"))
}

// Each pair of a stream and an internal table has a name of its own, which engines read without quotes. Invariant 17
func TestCatalogNamesDiffer(t *testing.T) {
	long := strings.Repeat("x", 200)
	streams := []string{"a.b_c", "a_b.c", "a.b__c", "a__b.c", "a__b__c", "a.b.c", "_a@b_c", "_a_b@c", "_a__b@c", "a.b@c", "_a.b", "_a_.b", "a.b_", "a._b", "a.B", "A.b",
		"a.b", "_a@b", "a.b-c", "a.b~2Dc", "a.b___c", "", "_", ".", long + ".a", long + ".b", "~E5~90~8D.x"}
	seen := map[string]string{}
	for _, stream := range streams {
		for _, table := range load.OwnTables() {
			name := CatalogName(stream, table.Name)
			require.Regexp(t, regexp.MustCompile(`^[a-z0-9_]{1,255}$`), name)
			require.Empty(t, seen[name], "%s of %s", name, stream)
			seen[name] = stream
		}
		require.Equal(t, CatalogName(stream, load.State.Name), HeadTable(stream))
	}
}
