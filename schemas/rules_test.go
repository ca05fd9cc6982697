package schemas

import (
	"encoding/json"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
)

func TestVerdict(t *testing.T) {
	s := Stream{Table: Table{Key: []string{"id", "_context__stage__id"}}, Rules: Rules{
		Rename: map[string]string{"old": "new"},
		Masks: []MaskRule{
			{Column: "email", Mask: Mask{Action: MaskHMAC}},
			{Column: "*_token", Mask: Mask{Action: MaskDrop}},
			{Column: "billing__*", Mask: Mask{Action: MaskRedact}},
			{Column: "billing__city", Mask: Mask{Action: MaskKeep}},
			{Column: "phone", Exact: true, Mask: Mask{Action: MaskPartial}},
		},
	}}
	for source, want := range map[string]Verdict{
		"/id":                 {},
		"/name":               {},
		"":                    {},
		"/email":              {Mask: Mask{Action: MaskHMAC}},
		"/Email":              {Mask: Mask{Action: MaskHMAC}},
		"/items/email":        {Mask: Mask{Action: MaskHMAC}},
		"/email/address":      {Mask: Mask{Action: MaskHMAC}},
		"/e-mail":             {},
		"/api_token":          {Drop: true},
		"/apiToken":           {Drop: true},
		"/api-token":          {Drop: true},
		"/a/b/c/d/apiToken/x": {Drop: true},
		"/token":              {},
		"/billing/street":     {Mask: Mask{Action: MaskRedact}},
		"/billing/city":       {},
		"/billing":            {},
		"/phone":              {Mask: Mask{Action: MaskPartial}},
		"/contact/phone":      {},
		"/old":                {Rename: "new"},
	} {
		require.Equal(t, want, s.Verdict(source), source)
	}
	s.Rules.Select = []string{"name", "items__price", "billing"}
	for source, want := range map[string]Verdict{
		"/id":                {},
		"/_context":          {Drop: true, Partial: true},
		"/_context/stage":    {Drop: true, Partial: true},
		"/_context/stage/id": {},
		"/_context/other":    {Drop: true},
		"/name":              {},
		"/name/of":           {},
		"/items":             {Drop: true, Partial: true},
		"/items/price":       {},
		"/items/name":        {Drop: true},
		"/billing/city":      {},
		"/other":             {Drop: true},
	} {
		got := s.Verdict(source)
		require.Equal(t, want, Verdict{Drop: got.Drop, Partial: got.Partial, Mask: got.Mask, Rename: got.Rename}, source)
	}
}

func TestMaskKeyIsNeverShown(t *testing.T) {
	s := Stream{Rules: Rules{MaskKey: "hush hush"}}
	shown, err := json.Marshal(s)
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%+v %#v %q %x", s, s, s.Rules.MaskKey, s.Rules.MaskKey), string(shown), s.Rules.MaskKey.LogValue().String()} {
		require.NotContains(t, text, "hush")
		require.NotContains(t, text, "68757368")
	}
	require.Equal(t, "hush hush", s.Rules.MaskKey.Reveal())
}

func TestPresets(t *testing.T) {
	p, err := LoadPresets()
	require.NoError(t, err)
	verdict := func(stream, source string, sets ...string) Verdict {
		s := Stream{Name: stream}
		for _, set := range sets {
			s.Rules.Masks = append(s.Rules.Masks, p.Rules(set, stream)...)
		}
		return s.Verdict(source)
	}
	for _, source := range []string{"/password", "/user/remember_token", "/two_factor_secret", "/two_factor_recovery_codes", "/apiKey", "/stripe_secret",
		"/settings/smtp_password", "/access_token", "/client-secret"} {
		require.True(t, verdict("users.users", source, PresetCredentials).Drop, source)
	}
	for _, source := range []string{"/name", "/password_changed_at", "/key", "/public_key", "/is_token_valid", "/secretary", "/tokenized", "/email_verified_at", "/abilities"} {
		require.False(t, verdict("users.users", source, PresetCredentials).Touched(), source)
	}
	for source, want := range map[string]string{"/email": MaskHMAC, "/name": MaskRedact, "/user/name": MaskRedact, "/user/email": MaskHMAC, "/phone": MaskPartial,
		"/date_of_birth": MaskRound, "/address_line_1": MaskRedact, "/account_number": MaskPartial, "/basic_salary": MaskRound, "/rate_per_hour": MaskRound,
		"/emergency_contact_number": MaskRedact, "/city": "", "/id": "", "/department/name": "", "/user_id": "", "/employee_id": ""} {
		require.Equal(t, want, verdict("hr.employees", source, PresetPersonal).Mask.Action, source)
	}
	require.True(t, verdict("hr.employees", "/passport_number", PresetPersonal).Drop)
	require.True(t, verdict("hr.employees", "/tax_payer_id", PresetPersonal).Drop)
	require.Empty(t, verdict("hr.leave_types", "/name", PresetPersonal).Mask.Action, "the name of a leave type is not personal")
}

func TestPresetsKeepKeysAndTypes(t *testing.T) {
	p, err := LoadPresets()
	require.NoError(t, err)
	c, err := Load()
	require.NoError(t, err)
	for _, s := range c.Streams() {
		s.Rules.Masks = append(p.Rules(PresetPersonal, s.Name), p.Rules(PresetCredentials, s.Name)...)
		for _, name := range s.Key {
			v := s.Verdict(PathPointer(name))
			require.True(t, !v.Drop && v.Mask.Keyable(), "%s %s", s.Name, name)
		}
		s.Rules.Masks = p.Rules(PresetCredentials, s.Name)
		for name := range s.Types {
			require.False(t, s.Verdict(PathPointer(name)).Drop, "%s %s", s.Name, name)
		}
	}
}

func TestLoadPresetsFaults(t *testing.T) {
	for text, want := range map[string]string{
		"- mask: dorp":                     `masks/x.yaml: mask "dorp": want one of`,
		"- {mask: drop, column: [a]}":      `masks/x.yaml:1:`,
		"- {mask: drop, columns: [A-b]}":   `"A-b" is not a column path`,
		"- {mask: drop, keep: 4}":          "mask drop has no option `keep`",
		"- {mask: partial, keep: 99}":      "keep 99: want 1 to 64",
		"- {mask: round, to: week}":        `to "week": want a power of ten`,
		"- {mask: round, with: x}":         "mask round has no option `with`",
		"- {mask: email, to: day}":         "mask email has no option `to`",
		"- {mask: redact, encoding: hex}":  "mask redact has no option `encoding`",
		"- {mask: hash, encoding: base64}": "want hex or base64url",
	} {
		_, err := loadPresets(fstest.MapFS{"masks/x.yaml": {Data: []byte(text)}})
		require.ErrorContains(t, err, want, text)
	}
}

func TestJoinTables(t *testing.T) {
	table := func(name string, fields ...arrow.Field) Table {
		return Table{Name: name, Columns: arrow.NewSchema(fields, nil)}
	}
	a := []Table{table("t", Field("id", Int64, "/id"), Field("n", Int64, "/n"), Field("x", Text, "/X")), {Name: "u"}}
	b := []Table{table("t", Field("id", Int64, "/id"), Field("n", Text, "/n"), Field("x", JSON, "/x"), Field("y", JSON, "/y")), table("t__i", Field("z", Date, "/z")), table("u", Field("v", Bool, "/v"))}
	got := JoinTables(a, nil, b)
	require.Len(t, got, 3)
	var spelled []string
	for _, g := range got {
		for _, f := range g.Columns.Fields() {
			spelled = append(spelled, g.Name+"."+f.Name+" "+TypeName(TypeOf(f))+" "+Source(f))
		}
	}
	require.Equal(t, []string{"t.id int64 /id", "t.n text /n", "t.x text /X", "t.y json /y", "u.v bool /v", "t__i.z date /z"}, spelled)
	require.Equal(t, "int64", a[0].Columns.Field(1).Type.String(), "the argument is not changed")
	require.Empty(t, JoinTables())
	mine := arrow.Field{Name: "mine", Type: arrow.PrimitiveTypes.Int32}
	got = JoinTables([]Table{table("t", mine)}, []Table{table("t", arrow.Field{Name: "mine", Type: arrow.PrimitiveTypes.Int16}, Field(ColParent, Int64, ""))}, []Table{table("t", Field(ColParent, Text, ""))})
	require.Equal(t, mine.Type, got[0].Columns.Field(0).Type)
	require.Equal(t, Text, got[0].Columns.Field(1).Type)
}
