package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func ruledBy(t *testing.T, stream, add, streams string) Stream {
	t.Helper()
	c := parsed(t, strings.Replace(minimal, "to: warehouse", "to: warehouse, "+add, 1)+streams)
	all, err := c.Select(c.Pipelines[0], nil)
	require.NoError(t, err)
	s, ok := find(all, func(s Stream) bool { return s.Name == stream })
	require.True(t, ok)
	return s
}

func TestSelectGivesStreamsTheirRules(t *testing.T) {
	s := ruledBy(t, "crm.leads", `mode: history, changes: true, schema: {columns: freeze}, mask_key: "0123456789abcdef"`, `streams:
  crm.leads:
    select: [name, amount, items__price]
    filter: [{column: status, in: [open, ""]}, {column: amount, min: 1_000}, {column: deleted_at, null: true}]
    schema: {types: discard_value}
    changes: false
    columns:
      email: hmac
      amount: {type: "decimal(16,2)"}
      old: {rename: new}
      notes: drop
      since: date
      phone: {mask: partial, keep: 3}
      born: {mask: round, to: year, rename: year_of_birth, type: date}
`)
	require.Equal(t, schemas.History, s.Table.Mode)
	require.False(t, s.Log)
	require.Equal(t, schemas.Contract{Tables: "evolve", Columns: "freeze", Types: "discard_value"}, s.Rules.Contract)
	require.Equal(t, map[string]string{"amount": "decimal(16,2)", "since": "date", "born": "date"}, s.Types)
	require.Equal(t, map[string]string{"old": "new", "born": "year_of_birth"}, s.Rules.Rename)
	require.Equal(t, []string{"name", "amount", "items__price"}, s.Rules.Select)
	min, yes := "1000", true
	require.Equal(t, []schemas.Condition{{Column: "status", In: []string{"open", ""}}, {Column: "amount", Min: &min}, {Column: "deleted_at", Null: &yes}}, s.Rules.Filter)
	require.Equal(t, "0123456789abcdef", s.Rules.MaskKey.Reveal())
	n := len(s.Rules.Masks)
	require.Equal(t, []schemas.MaskRule{
		{Column: "email", Exact: true, Mask: schemas.Mask{Action: "hmac"}},
		{Column: "notes", Exact: true, Mask: schemas.Mask{Action: "drop"}},
		{Column: "phone", Exact: true, Mask: schemas.Mask{Action: "partial", Keep: 3}},
		{Column: "born", Exact: true, Mask: schemas.Mask{Action: "round", To: "year"}},
	}, s.Rules.Masks[n-4:])

	other := ruledBy(t, "hr.employees", `mode: append, changes: true`, "streams: {hr.employees: {mode: replace}}\n")
	require.Equal(t, schemas.Replace, other.Table.Mode)
	require.True(t, other.Log)
	require.Equal(t, schemas.Contract{Tables: "evolve", Columns: "evolve", Types: "evolve"}, other.Rules.Contract)
}

func TestMaskPriority(t *testing.T) {
	const key = `mask_key: "0123456789abcdef"`
	for _, tt := range []struct {
		name, mask, streams, column, want string
	}{
		{"none", `{}`, "", "email", ""},
		{"pattern", `{"*.email": hmac}`, "", "email", "hmac"},
		{"pattern matches a member of an object", `{"*.email": hmac}`, "", "contact__email", "hmac"},
		{"pattern of another stream", `{"crm.*.email": hmac}`, "", "email", ""},
		{"a column name has priority over a pattern of columns", `{"*.email": hmac, "*.email*": drop}`, "", "email", "hmac"},
		{"a full name has priority over a pattern", `{"hr.employees.email": redact, "*.email": hmac}`, "", "email", "redact"},
		{"mask of the stream itself", `{"hr.employees.email": drop}`, "streams: {hr.employees: {columns: {email: hash}}}\n", "email", "hash"},
		{"mask of the stream itself matches only its path", `{}`, "streams: {hr.employees: {columns: {email: hash}}}\n", "contact__email", ""},
		{"one column of one stream", `{"hr.employees.email": redact}`, "", "contact__email", ""},
		{"preset", `{"hr.*": personal}`, "", "date_of_birth", "round"},
		{"a pattern has priority over a preset", `{"*.date_of_birth": keep, "hr.*": personal}`, "", "date_of_birth", "keep"},
		{"preset of other streams", `{"crm.*": personal}`, "", "date_of_birth", ""},
		{"credential", `{}`, "", "remember_token", "drop"},
		{"credential inside an object", `{}`, "", "settings__api_key", "drop"},
		{"a pattern does not keep a credential", `{"*.*": keep}`, "", "remember_token", "drop"},
		{"a column name keeps a credential", `{"*.remember_token": keep}`, "", "remember_token", "keep"},
		{"the stream's mask applies to a credential", `{}`, "streams: {hr.employees: {columns: {remember_token: hmac}}}\n", "remember_token", "hmac"},
		{"a name that only resembles a credential", `{}`, "", "password_changed_at", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := ruledBy(t, "hr.employees", key+", mask: "+tt.mask, tt.streams)
			v := s.Verdict(schemas.PathPointer(tt.column))
			got := v.Mask.Action
			if v.Drop {
				got = "drop"
			}
			if tt.want == "keep" {
				tt.want = ""
			}
			require.Equal(t, tt.want, got)
		})
	}
}
