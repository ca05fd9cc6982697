package browse

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/schemas"
)

// A table with several sources is as fresh as its oldest source, and as complete as its worst.
func TestProofOfSeveralSources(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := Proof{}.with(Proof{ReadAt: began, Verdict: "proven", Run: "r2"})
	p = p.with(Proof{ReadAt: began.Add(-time.Hour), Verdict: "consistent", Run: "r1", Why: "no total"})
	p = p.with(Proof{ReadAt: began.Add(time.Hour), Verdict: "proven", Run: "r3", Problem: "run r4: failed"})
	require.Equal(t, Proof{ReadAt: began.Add(-time.Hour), Verdict: "consistent", Run: "r1", Why: "no total", Sources: 3, Problem: "run r4: failed"}, p)
	require.Equal(t, NoVerdict, p.with(Proof{Verdict: NoVerdict}).Verdict)
	require.True(t, p.with(Proof{Verdict: NoVerdict}).ReadAt.IsZero())
}

func TestNamedTables(t *testing.T) {
	tables := []knowledge.Table{}
	for _, name := range []string{"crm_leads", "crm_leads__tags", "sales_invoices", "hr_employees"} {
		tables = append(tables, knowledge.Table{Table: schemas.Table{Name: name}})
	}
	views, err := schemas.LoadViews()
	require.NoError(t, err)
	for sql, want := range map[string]string{
		"SELECT 1":                      "",
		"FROM crm_leads":                "crm_leads",
		"SELECT crm_leads.id FROM x":    "crm_leads",
		`TABLE "CRM_Leads_current"`:     "crm_leads",
		"FROM crm_leads__tags":          "crm_leads__tags",
		"FROM crm_leads_old":            "",
		"FROM a.hr_employees,crm_leads": "crm_leads hr_employees",
	} {
		found, err := named(sql, tables)
		require.NoError(t, err)
		names := []string{}
		for _, f := range found {
			names = append(names, f.Name)
		}
		require.Equal(t, want, strings.Join(names, " "), sql)
	}
	for _, v := range views {
		if _, needs := v.Needs["sales_invoices"]; needs {
			found, err := named("SELECT * FROM "+v.Name, tables)
			require.NoError(t, err)
			require.NotEmpty(t, found, v.Name)
		}
	}
}
