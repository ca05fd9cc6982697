package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func checksOf(t *testing.T, list string) []schemas.Check {
	t.Helper()
	s, ok := find(parsed(t, minimal+"streams: {crm.leads: {checks: "+list+"}}\n").Streams, func(s Stream) bool { return s.Name == "crm.leads" })
	require.True(t, ok)
	var all []schemas.Check
	for _, c := range s.Checks {
		require.NotZero(t, c.At)
		all = append(all, c.Check)
	}
	return all
}

func TestChecks(t *testing.T) {
	require.Equal(t, []schemas.Check{
		{Name: "not_null(email)", Kind: schemas.CheckNotNull, Columns: []string{"email"}, Hold: true},
		{Name: "unique(account_id, code)", Kind: schemas.CheckUnique, Columns: []string{"account_id", "code"}},
		{Name: "accepted(status)", Kind: schemas.CheckAccepted, Columns: []string{"status"}, Values: []string{"open", "closed", ""}},
		{Name: "range(amount)", Kind: schemas.CheckRange, Columns: []string{"amount"}, Min: "-0.5"},
		{Name: "born", Kind: schemas.CheckRange, Columns: []string{"birthday"}, Min: "1900-01-01", Max: "2026-01-31T12:00:00Z"},
		{Name: "fresh", Kind: schemas.CheckFresh, Columns: []string{schemas.ColSyncedAt}, Within: 24 * time.Hour},
		{Name: "fresh(created_at)", Kind: schemas.CheckFresh, Columns: []string{"created_at"}, Within: 7 * 24 * time.Hour},
		{Name: "rows", Kind: schemas.CheckRows, Min: "0", Max: "1000", Change: 30},
		{Name: "order", Kind: schemas.CheckSQL, SQL: "SELECT id FROM {table} WHERE ends < begins"},
	}, checksOf(t, `[{not_null: email, on_fail: hold}, {unique: [account_id, code], on_fail: warn}, {accepted: {status: [open, closed, ""]}}, {range: {amount: {min: -0.5}}},
    {range: {birthday: {min: 1900-01-01, max: "2026-01-31T12:00:00Z"}}, name: born}, {fresh: 24h}, {fresh: {column: created_at, within: 7d}}, {rows: {min: 0, max: 1_000, change: 30%}},
    {sql: "SELECT id FROM {table} WHERE ends < begins", name: order}]`))
}

func TestChecksAreRefused(t *testing.T) {
	for list, want := range map[string]string{
		"email":                      "pipelines.yaml:8:31: stream crm.leads checks is text; want a mapping such as {not_null: email}",
		"[{not_nul: email}]":         `unknown key "not_nul" in stream crm.leads checks; did you mean "not_null"?`,
		"[{}]":                       "stream crm.leads checks: want one of not_null, unique, accepted, range, fresh, rows or sql",
		"[{not_null: a, unique: b}]": "a check has one kind, not not_null and unique",
		"[{sql: SELECT 1}]":          "a check with `sql` needs a `name`",
		"[{sql: SELECT 1, name: a, on_fail: hold}]": "a check of the kind sql is about the table as a whole, and cannot hold rows back",
		"[{rows: {min: 1}, on_fail: hold}]":         "a check of the kind rows is about the table as a whole",
		"[{not_null: a}, {not_null: a}]":            `two checks are called "not_null(a)"`,
		"[{not_null: []}]":                          "stream crm.leads checks not_null is empty",
		"[{not_null: E-mail}]":                      `"E-mail": not a column`,
		"[{accepted: {a: [b], c: [d]}}]":            "want one column; write a check for each column",
		"[{accepted: {a: []}}]":                     "stream crm.leads checks accepted a is empty",
		"[{range: {a: {}}}]":                        "has neither min nor max",
		"[{range: {a: {min: ten}}}]":                `"ten": want a number, a date such as 2026-01-31, or a time`,
		"[{fresh: {column: a}}]":                    "stream crm.leads checks fresh has no within",
		"[{fresh: soon}]":                           `"soon": want a length of time`,
		"[{rows: {}}]":                              "has none of min, max and change",
		"[{rows: {change: 30}}]":                    `"30": want a share such as 30%`,
		"[{not_null: a, on_fail: stop}]":            `on_fail "stop" is unknown; want warn or hold`,
	} {
		_, err := Parse([]byte(minimal+"streams: {crm.leads: {checks: "+list+"}}\n"), input())
		require.ErrorContains(t, err, want, list)
	}
}

// An event that a check holds back would be tried again until it is given up. So streams with webhook events cannot
// hold rows back. A stream without events can.
func TestChecksCannotHoldEvents(t *testing.T) {
	hold := "streams: {crm.leads: {checks: [{not_null: email, on_fail: hold}]}}\n"
	hooks := "{secret: whsec_c2VjcmV0LXNlY3JldA==, scheme: standard}"
	_, err := Parse([]byte(withWebhooks(hooks)+hold), input())
	require.ErrorContains(t, err, "stream crm.leads: check not_null(email): source main has `webhooks`, whose events change this stream; an event cannot be held back, so use `on_fail: warn`")
	_, err = Parse([]byte(withWebhooks(hooks)+strings.Replace(hold, "crm.leads", "crm.lead_detail", 1)), input())
	require.ErrorContains(t, err, "stream crm.lead_detail: check", "events also change the table of the records' details")
	parsed(t, minimal+hold)
	parsed(t, withWebhooks(hooks)+strings.Replace(hold, "hold", "warn", 1))
	parsed(t, withWebhooks(hooks)+strings.Replace(hold, "crm.leads", "hr.payslips", 1))
}

// A table in mode append has every version of a record.
func TestChecksOfVersionsAreRefused(t *testing.T) {
	checks := func(mode, check string) string {
		return minimal + "streams: {crm.leads: {mode: " + mode + ", checks: [" + check + "]}}\n"
	}
	for _, check := range []string{"{unique: id}", "{rows: {min: 1}}"} {
		_, err := Parse([]byte(checks("append", check)), input())
		require.ErrorContains(t, err, "a table in mode append keeps every version of a record")
		parsed(t, checks("history", check))
	}
	parsed(t, checks("append", "{not_null: id}"))
}

func TestHasCheck(t *testing.T) {
	c := parsed(t, minimal+"streams: {crm.leads: {checks: [{not_null: email, name: mails}]}}\n")
	require.True(t, c.HasCheck("crm.leads", "mails"))
	require.False(t, c.HasCheck("crm.leads", "not_null(email)"))
	require.False(t, c.HasCheck("hr.employees", "mails"))
}
