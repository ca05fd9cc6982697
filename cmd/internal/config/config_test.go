package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

func input() Input {
	env := map[string]string{
		"PENSTOCK_V2_URL":          "https://api.example.com",
		"PENSTOCK_APP_URL":         "https://app.example.com/",
		"PENSTOCK_API_KEY":         "sk_hush",
		"PENSTOCK_APP_TOKEN":       "pat_hush",
		"PENSTOCK_SIGNING_SECRET":  "whsec_hush",
		"PENSTOCK_DASHBOARD_TOKEN": "dash_hush_0123456789",
		"DATABASE_URL":             "postgres://me:hush@db.example.com/x?sslmode=require",
		"PENSTOCK_MASK_KEY":        "hush hush hush hush",
		"EMPTY":                    "",
	}
	files := map[string]string{"key": "sk_file\r\n", "blank": "\n"}
	return Input{
		File:      "pipelines.yaml",
		Env:       func(n string) (string, bool) { v, ok := env[n]; return v, ok },
		Schemes:   []string{"duckdb", "parquet", "postgres"},
		Catalogue: catalogue(),
		Read: func(p string) (string, error) {
			if v, ok := files[p]; ok {
				return v, nil
			}
			return "", errors.New("no such file")
		},
	}
}

func catalogue() []schemas.Stream {
	stream := func(name string, class schemas.Class, method, path string) schemas.Stream {
		module, _, _ := strings.Cut(name, ".")
		s := schemas.Stream{Name: name, Module: module, Surface: schemas.SurfaceApp, Class: class, Method: method, Path: path, Enabled: class.Readable()}
		if class.Readable() {
			s.Table.Name = strings.ReplaceAll(name, ".", "_")
		}
		return s
	}
	detail := stream("crm.lead_detail", schemas.ClassDetail, "POST", "/api/lead/lead-details")
	detail.Parent, detail.Params = "crm.leads", []schemas.Param{{Name: "lead_id", In: "body", From: "/id"}}
	partners := stream("wl.partners", schemas.ClassList, "GET", "/api/wl/partners")
	partners.Auth, partners.Enabled, partners.Reason = schemas.AuthWhiteLabel, false, "needs a white-label token"
	contacts := stream("v2.contacts", schemas.ClassList, "GET", "/v2/contacts")
	contacts.Surface = schemas.SurfaceV2
	return []schemas.Stream{
		contacts, detail,
		stream("crm.leads", schemas.ClassList, "GET", "/api/leads"),
		stream("crm.lead_create", schemas.ClassWrite, "POST", "/api/lead/create"),
		stream("hr.employees", schemas.ClassList, "GET", "/api/hrm/employees"),
		stream("hr.payslips", schemas.ClassList, "GET", "/api/hrm/payslips"),
		partners,
	}
}

const minimal = `version: 1
sources:
  main:
    app: {base_url: "https://app.example.com", auth: {token: t}}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines:
  nightly: {from: main, to: warehouse}
`

const contract = `version: 1
sources:
  main:
    v2:                                  # versioned surface
      base_url: ${PENSTOCK_V2_URL}
      auth: {api_key: "${PENSTOCK_API_KEY}"}        # or oauth: {…}
      plan: pro                          # free | pro | business | agency; or rate: 100/s
    app:                                 # application surface
      base_url: ${PENSTOCK_APP_URL}
      auth: {token: "${PENSTOCK_APP_TOKEN}"}        # or login: {email, password}
    webhooks: {secret: "${PENSTOCK_SIGNING_SECRET}", scheme: stripe}   # received at POST /webhooks/main
destinations:
  warehouse: duckdb:warehouse.duckdb     # a URL; the scheme picks the loader
  desk: {url: "duckdb:private.duckdb", publish: analysts.duckdb}   # readers get a copy, renamed into place after each run
  bi: {url: "${DATABASE_URL}", schema: platform}
  lake: parquet:lake
pipelines:
  nightly:
    from: main                           # a source, or a list of sources
    to: [warehouse, bi]                  # destinations at the same cursor share one reading of the source
    streams: ["*", "!hr.payslips"]
    schedule: {cron: "0 2 * * *", zone: Europe/Berlin, catch_up: once}
    mode: merge                          # merge | append | replace | history
    schema: {tables: evolve, columns: evolve, types: evolve}   # evolve | freeze | discard_row | discard_value
    mask: {"*.email": hmac, "hr.employees.account_number": drop}
streams:                                 # overrides and additions
  crm.leads: {records: /data/items, key: [id], pagination: {type: page, page: page, size: per_page, limit: 100}}
  blog.posts: {path: "https://blog.example/wp-json/wp/v2/posts"}      # one of the user's own; the rest is negotiated
serve: {listen: 127.0.0.1:8080, auth: {token: "${PENSTOCK_DASHBOARD_TOKEN}"}}
state: .penstock                         # inbox and caches; or a postgres:// URL that several workers share
`

func TestParseFiles(t *testing.T) {
	c, err := Parse([]byte(strings.Replace(contract, "schema: platform}", "schema: platform, files: /var/lib/papers}", 1)), input())
	require.NoError(t, err)
	bi, _ := c.Destination("bi")
	require.Equal(t, "/var/lib/papers", bi.Files)
	warehouse, _ := c.Destination("warehouse")
	require.Empty(t, warehouse.Files)
}

func TestParseReread(t *testing.T) {
	stream := func(text string) string {
		return strings.Replace(contract, "blog.posts: {", "blog.posts: {reread: "+text+", ", 1)
	}
	c, err := Parse([]byte(stream("30")), input())
	require.NoError(t, err)
	s, ok := c.Stream("blog.posts")
	require.True(t, ok)
	require.Equal(t, 30, s.RereadPasses)
	for _, text := range []string{"0", "-1", "10001", "often"} {
		_, err := Parse([]byte(stream(text)), input())
		require.ErrorContains(t, err, "blog.posts reread")
	}
}

func TestParseContractExample(t *testing.T) {
	c, err := Parse([]byte(contract), input())
	require.NoError(t, err)

	s, ok := c.Source("main")
	require.True(t, ok)
	require.Equal(t, "https://api.example.com", s.V2.BaseURL)
	require.Equal(t, "https://app.example.com", s.App.BaseURL)
	require.Equal(t, "sk_hush", s.V2.Auth.APIKey.Reveal())
	require.Equal(t, "pat_hush", s.App.Auth.Token.Reveal())
	require.Equal(t, budget.Rate{Limit: 100, Window: time.Second}, s.V2.Rate)
	require.Zero(t, s.App.Rate)
	require.Equal(t, "stripe", s.Webhooks.Schemes[0].Name)

	d, ok := c.Destination("bi")
	require.True(t, ok)
	require.Equal(t, "postgres", d.Scheme)
	require.Equal(t, "platform", d.Schema)
	require.Equal(t, "postgres://db.example.com/x", d.Shown)
	desk, _ := c.Destination("desk")
	require.Equal(t, "analysts.duckdb", desk.Publish)
	require.Equal(t, "duckdb:private.duckdb", desk.Shown)

	p, ok := c.Pipeline("nightly")
	require.True(t, ok)
	require.Equal(t, "0 2 * * *", p.Schedule.Cron)
	require.Equal(t, "Europe/Berlin", p.Schedule.Zone.String())
	require.Equal(t, "merge", p.Mode.Text)
	require.Len(t, p.Mask, 2)
	require.Equal(t, Mask{At: Pos{25, 29}, Stream: "hr.employees", Column: "account_number", Mask: schemas.Mask{Action: "drop"}}, p.Mask[1])
	require.Equal(t, ".penstock", c.State.Dir)
	require.Equal(t, []ServeToken{{Name: "owner", Secret: "dash_hush_0123456789", Role: "operate"}}, c.Serve.Tokens)

	chosen, err := c.Select(p, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"v2.contacts", "crm.leads", "crm.lead_detail", "hr.employees", "blog.posts"}, names(chosen))
	leads := chosen[1]
	require.Equal(t, []string{"/data/items"}, leads.Records)
	require.Equal(t, []string{"id"}, leads.Key)
	require.Equal(t, schemas.Pagination{Type: "page", Page: "page", Size: "per_page", Limit: 100}, leads.Pagination)
	posts := chosen[4]
	require.Equal(t, "https://blog.example", posts.Origin)
	require.Equal(t, "/wp-json/wp/v2/posts", posts.Path)
	require.Equal(t, "blog_posts", posts.Table.Name)
}

func TestParseFaults(t *testing.T) {
	with := func(old, new string) string { return strings.Replace(minimal, old, new, 1) }
	for _, tt := range []struct{ name, yaml, want string }{
		{"typo at the top", with("pipelines:", "pipelnes:"), `6:1: unknown key "pipelnes" in the configuration; did you mean "pipelines"?`},
		{"typo in a pipeline", with("to: warehouse", "to: warehouse, shcedule: {}"), `7:40: unknown key "shcedule" in pipeline nightly; did you mean "schedule"?`},
		{"unknown key that resembles no key", with("to: warehouse", "to: warehouse, zzz: 1"), `7:40: unknown key "zzz" in pipeline nightly; want after, alerts, changes, from, keep, mask, mask_key, mode, schedule, schema, streams or to`},
		{"duplicate key", minimal + "version: 1\n", `8:1: key "version" occurs twice in the configuration, first in line 1`},
		{"tab", "version: 1\n\tsources: {}\n", "2:1: a tab; YAML is indented with spaces"},
		{"not YAML", "version: [1\n", "1:10: not YAML"},
		{"empty", "", "1:1: empty; start with `version: 1`"},
		{"comment only", "# nothing\n", "1:1: empty"},
		{"list at the top", "- a\n", "1:1: the configuration is a list; want a mapping"},
		{"missing section", "version: 1\n", "1:1: the configuration has no sources"},
		{"version", with("version: 1", "version: 2"), `1:10: version "2": want 1`},
		{"second document", minimal + "---\nversion: 1\n", "9:1: a second document; want only one"},
		{"unknown alias", with("from: main", "from: *nobody"), "7:19: alias *nobody has no anchor"},

		{"variable not set", with("token: t", `token: "${NOPE}"`), "4:62: environment variable NOPE is not set"},
		{"variable empty", with("token: t", `token: "${EMPTY}"`), "4:62: environment variable EMPTY is empty"},
		{"variable's name", with("token: t", `token: "${a-b}"`), "4:62: ${a-b} is not a valid variable name"},
		{"unclosed", with("token: t", `token: "${A"`), "4:62: ${ without a closing }"},
		{"secret file missing", with("token: t", `token: "${file:nope}"`), "4:62: ${file:nope}: no such file"},
		{"secret file empty", with("token: t", `token: "${file:blank}"`), "4:62: ${file:blank} is empty"},

		{"plain http", with("https://app", "http://app"), "4:21: source main app base_url is http, which would send credentials in clear text"},
		{"userinfo", with("https://app", "https://u:hush@app"), "4:21: source main app base_url contains a user or password"},
		{"path", with("example.com", "example.com/api"), "4:21: source main app base_url ends in /api; remove that"},
		{"query", with("example.com", "example.com?a=b"), "4:21: source main app base_url contains a query"},
		{"fragment", with("example.com", "example.com#a"), "4:21: source main app base_url contains a fragment"},
		{"other scheme", with("https://app", "ftp://app"), "4:21: source main app base_url has no http or https scheme"},
		{"no scheme", with("https://app", "app"), "4:21: source main app base_url has no http or https scheme"},
		{"unicode host", with("app.example", "äpp.example"), "4:21: source main app base_url has a host with non-ASCII letters"},
		{"port", with("example.com", "example.com:99999"), "4:21: source main app base_url has an invalid port"},

		{"no auth", with(", auth: {token: t}", ""), "4:10: source main app has no auth"},
		{"two credentials", with("token: t", "token: t, login: {email: e, password: p}"), "4:54: source main app auth holds 2 credentials; want one of token, login or oauth"},
		{"login without a password", with("token: t", "login: {email: e}"), "4:62: source main app auth login has no password"},
		{"api key on app", with("token: t", "api_key: t"), `4:55: unknown key "api_key" in source main app auth`},
		{"oauth on app", with("token: t", "oauth: {client_id: c}"), `4:62: source main app auth oauth has no authorize_url`},
		{"secret with a line break", with("token: t", `token: "a\nb"`), "4:62: source main app auth token contains a control character"},
		{"empty source", with("app: {", "ap: {"), `4:5: unknown key "ap" in source main; did you mean "app"?`},
		{"rate", with("auth:", "rate: 100/week, auth:"), `4:54: source main app rate "100/week": want requests per second`},
		{"rate of zero", with("auth:", "rate: 0/s, auth:"), `4:54: source main app rate "0/s": want`},
		{"rate negative", with("auth:", "rate: -5/s, auth:"), `rate "-5/s": want`},
		{"rate too high", with("auth:", "rate: 1000000000000/s, auth:"), "want requests per second"},
		{"plan", with("auth:", "plan: busines, auth:"), `4:54: source main app plan "busines" is unknown; did you mean "business"?`},
		{"plan and rate", with("auth:", "plan: pro, rate: 5/s, auth:"), "4:65: source main app has a plan and a rate; keep one"},

		{"scheme", with("duckdb:w", "dukdb:w"), `5:27: destination warehouse: no kind of destination has the scheme "dukdb"; did you mean "duckdb"?`},
		{"no scheme at all", with("duckdb:w.duckdb", "w.duckdb"), `destination warehouse "w.duckdb" has no scheme`},
		{"scheme alone", with("duckdb:w.duckdb", "duckdb:"), "has nothing after duckdb:"},
		{"number for a destination", with(`"duckdb:w.duckdb"`, "[1]"), "5:27: destination warehouse is a list; want a single value"},

		{"source unknown", with("from: main", "from: mian"), `7:19: pipeline nightly from: no source "mian"; did you mean "main"?`},
		{"destination unknown", with("to: warehouse", "to: [warehose]"), `7:30: pipeline nightly to: no destination "warehose"; did you mean "warehouse"?`},
		{"destination twice", with("to: warehouse", "to: [warehouse, warehouse]"), `pipeline nightly to names "warehouse" twice`},
		{"stream unknown", with("to: warehouse", `to: warehouse, streams: ["*", "!hr.payslip"]`), `7:55: pipeline nightly streams: no stream "hr.payslip"; did you mean "hr.payslips"?`},
		{"streams that match nothing", with("to: warehouse", "to: warehouse, streams: [xyz.*]"), "no stream \"xyz.*\"; `penstock streams` lists them"},
		{"stream is a write", with("to: warehouse", "to: warehouse, streams: [crm.lead_create]"), "crm.lead_create is a write endpoint and can never be read"},
		{"stream needs a token", with("to: warehouse", "to: warehouse, streams: [wl.partners]"), "7:50: stream wl.partners needs a white-label token"},
		{"stream of a surface that is not configured", with("to: warehouse", "to: warehouse, streams: [v2.contacts]"), "7:50: stream v2.contacts belongs to the surface v2, which source main does not configure"},
		{"mode", with("to: warehouse", "to: warehouse, mode: apend"), `7:46: pipeline nightly mode "apend" is unknown; did you mean "append"?`},
		{"schema", with("to: warehouse", "to: warehouse, schema: {types: frieze}"), `"frieze" is unknown; did you mean "freeze"?`},
		{"schedule as text", with("to: warehouse", `to: warehouse, schedule: "0 2 * * *"`), "pipeline nightly schedule is text; want a mapping"},
		{"cron field", with("to: warehouse", `to: warehouse, schedule: {cron: daily}`), `cron "daily" has 1 field; want five`},
		{"cron fields", with("to: warehouse", `to: warehouse, schedule: {cron: "0 2 *"}`), "has 3 fields; want five"},
		{"cron with only a space", with("to: warehouse", `to: warehouse, schedule: {cron: " "}`), "pipeline nightly schedule cron is empty"},
		{"cron every zero seconds", with("to: warehouse", `to: warehouse, schedule: {cron: "@every 0s"}`), "@every needs whole seconds, at least one"},
		{"cron minute", with("to: warehouse", `to: warehouse, schedule: {cron: "61 * * * *"}`), `7:57: pipeline nightly schedule cron "61 * * * *": end of range (61) above maximum (59): 61`},
		{"cron on a date that does not exist", with("to: warehouse", `to: warehouse, schedule: {cron: "0 0 30 2 *"}`), "never fires: no date matches"},
		{"cron with a zone", with("to: warehouse", `to: warehouse, schedule: {cron: "TZ=UTC 0 2 * * *"}`), "set the time zone with the key `zone`"},
		{"catch_up skip instead of none", with("to: warehouse", `to: warehouse, schedule: {cron: "@daily", catch_up: skip}`), `catch_up "skip" is unknown; did you mean "none"?`},
		{"jitter", with("to: warehouse", `to: warehouse, schedule: {cron: "@hourly", jitter: 1h}`), `jitter "1h": want less than the 1h0m0s between two runs`},
		{"deadline", with("to: warehouse", `to: warehouse, schedule: {cron: "@hourly", deadline: 2}`), `deadline "2": want a duration up to`},
		{"cron word", with("to: warehouse", `to: warehouse, schedule: {cron: "@dayly"}`), `did you mean "@daily"?`},
		{"zone", with("to: warehouse", `to: warehouse, schedule: {cron: "@daily", zone: Mars/Base}`), `zone "Mars/Base" is unknown`},
		{"mask of a stream without a column", with("to: warehouse", `to: warehouse, mask: {email: drop}`), `7:47: pipeline nightly mask "email": want stream.column`},
		{"mask of an unknown stream", with("to: warehouse", `to: warehouse, mask: {"hr.employes.email": drop}`), `did you mean "hr.employees"?`},
		{"mask of an invalid column", with("to: warehouse", `to: warehouse, mask: {"hr.employees.E-Mail": drop}`), `7:47: pipeline nightly mask "hr.employees.E-Mail": "E-Mail" is not a column path; want lower case`},
		{"mask unknown", with("to: warehouse", `to: warehouse, mask: {"*.email": hmca}`), `7:58: pipeline nightly mask *.email "hmca" is unknown; did you mean "hmac"?`},
		{"mask personal with a column", with("to: warehouse", `to: warehouse, mask: {"hr.employees.name": personal}`), `7:47: pipeline nightly mask "hr.employees.name": no stream "hr.employees.name"; did you mean "hr.employees"?`},
		{"mask without an action", with("to: warehouse", `to: warehouse, mask: {"*.email": {keep: 4}}`), `7:58: pipeline nightly mask *.email has no mask`},
		{"mask parameter", with("to: warehouse", `to: warehouse, mask: {"*.email": {mask: email, keep: 4}}`), `7:58: pipeline nightly mask *.email: mask email has no option ` + "`keep`"},
		{"mask parameter unknown", with("to: warehouse", `to: warehouse, mask: {"*.email": {mask: partial, kepe: 4}}`), `7:74: unknown key "kepe" in pipeline nightly mask *.email; did you mean "keep"?`},
		{"mask round with an invalid step", with("to: warehouse", `to: warehouse, mask: {"*.email": {mask: round, to: 500}}`), `mask round: to "500": want a power of ten, day, month or year`},
		{"short mask key", with("to: warehouse", `to: warehouse, mask_key: "hush"`), `7:50: pipeline nightly mask_key is shorter than 16 characters`},
		{"key dropped", with("to: warehouse", `to: warehouse, mask: {"*.id": drop}`) + "streams: {crm.leads: {key: id}, hr.employees: {key: id}}\n",
			`7:47: pipeline nightly mask would drop id, the key of crm.leads; a key allows only hmac, hash or keep`},
		{"key rounded", minimal + "streams: {crm.leads: {key: [a, b], columns: {b: round}}}\n", `8:46: stream crm.leads columns would mask (round) b, the key of crm.leads`},
		{"key inside a dropped object", minimal + "streams: {crm.leads: {key: a__b, columns: {a: drop}}}\n", `8:44: stream crm.leads columns would drop a__b, the key of crm.leads`},
		{"key that is a credential", minimal + "streams: {crm.leads: {key: token}}\n", `8:11: stream crm.leads never loads credentials, so it would drop token, the key of crm.leads`},
		{"changes", with("to: warehouse", `to: warehouse, changes: maybe`), `7:49: pipeline nightly changes "maybe" is unknown; want true or false`},
		{"two pipelines, one table", minimal + "  hourly: {from: main, to: warehouse, streams: crm.leads}\n", "8:28: pipelines nightly and hourly would both write crm_leads into warehouse"},

		{"stream key", minimal + "streams: {crm.leads: {record: /data}}\n", `8:23: unknown key "record" in stream crm.leads; did you mean "records"?`},
		{"stream without a path", minimal + "streams: {crm.leeds: {key: id}}\n", `8:11: stream crm.leeds is not in the catalogue and has no path; did you mean "crm.leads"?`},
		{"write as a stream", minimal + "streams: {crm.lead_create: {key: id}}\n", "8:11: stream crm.lead_create is a write endpoint and can never be read"},
		{"write endpoint under another name", minimal + "streams: {my.leads: {path: /API/lead/create/, method: POST}}\n", "8:11: stream my.leads would call POST /api/lead/create, a write endpoint"},
		{"method", minimal + "streams: {my.leads: {path: /api/x, method: DELETE}}\n", `method "DELETE" is unknown; want GET or POST`},
		{"path with dots", minimal + "streams: {my.leads: {path: /api/../x}}\n", "want plain segments"},
		{"path without a slash", minimal + "streams: {my.leads: {path: api/x}}\n", "want a leading / or an absolute URL"},
		{"path parameter", minimal + "streams: {my.leads: {path: '/api/x/{id}'}}\n", "has no parameter for {id} in its path"},
		{"parent unknown", minimal + "streams: {my.lead: {path: '/api/x/{id}', parent: crm.lead, params: {id: {from: /id}}}}\n", `did you mean "crm.leads"?`},
		{"stream is its own ancestor", minimal + "streams: {my.a: {path: /a, parent: my.b}, my.b: {path: /b, parent: my.a}}\n", "stream my.a is its own ancestor"},
		{"from without a parent", minimal + "streams: {my.a: {path: /a, params: {x: {from: /id}}}}\n", "takes parameters from a parent but has no parent"},
		{"table taken", minimal + "streams: {crm_leads.x: {path: /a}, crm.leads_x: {path: /b}}\n", "would share the table crm_leads_x with"},
		{"name", minimal + "streams: {Leads: {path: /a}}\n", `stream "Leads": want module.resource in lower case`},
		{"incremental without a field", minimal + "streams: {crm.leads: {incremental: {param: since}}}\n", `8:36: stream crm.leads incremental has no field`},
		{"incremental with until but no param", minimal + "streams: {crm.leads: {incremental: {field: at, until: to}}}\n", "8:36: stream crm.leads incremental has `until` but no `param`"},
		{"incremental with an invalid lookback", minimal + "streams: {crm.leads: {incremental: {field: at, lookback: soon}}}\n", `stream crm.leads incremental lookback "soon": want a length of time`},
		{"incremental format", minimal + "streams: {crm.leads: {incremental: {field: at, format: iso}}}\n", `incremental format "iso" is unknown`},
		{"months without a year", minimal + "streams: {crm.leads: {months: {month: m}}}\n", `stream crm.leads months has no year`},
		{"first month given as a day", minimal + "streams: {crm.leads: {months: {month: m, year: y, first: 2024-01-02}}}\n", `months first "2024-01-02": want a month, such as 2024-01`},
		{"months of a child stream", minimal + "streams: {my.kid: {path: \"/k/{id}\", parent: crm.leads, params: {id: {from: /id}}, months: {month: m, year: y}}}\n", `stream my.kid has the parent crm.leads, so it cannot be read by months`},
		{"months and incremental", minimal + "streams: {crm.leads: {incremental: auto, months: {month: m, year: y}}}\n", "has both `months` and `incremental`"},
		{"months off", minimal + "streams: {crm.leads: {months: off}}\n", `months "off" is unknown`},
		{"incremental on", minimal + "streams: {crm.leads: {incremental: on}}\n", `incremental "on" is unknown`},
		{"column type", minimal + "streams: {crm.leads: {columns: {x: float}}}\n", `8:36: stream crm.leads columns x: "float" is neither a type nor a mask; want bool, int64`},
		{"column path", minimal + "streams: {crm.leads: {columns: {E-Mail: drop}}}\n", `8:33: stream crm.leads columns E-Mail: not a valid column path`},
		{"column mapping", minimal + "streams: {crm.leads: {columns: {x: {typ: text}}}}\n", `8:37: unknown key "typ" in stream crm.leads columns x; did you mean "type"?`},
		{"column mask and type", minimal + "streams: {crm.leads: {columns: {x: {mask: hash, type: date}}}}\n", "8:55: stream crm.leads columns x: mask hash always produces text; remove `type`"},
		{"column parameter without a mask", minimal + "streams: {crm.leads: {columns: {x: {keep: 3}}}}\n", `8:36: stream crm.leads columns x has no mask`},
		{"rename to an invalid name", minimal + "streams: {crm.leads: {columns: {x: {rename: My Name}}}}\n", `8:45: stream crm.leads columns x rename "My Name": want lower-case letters`},
		{"rename to penstock's own", minimal + "streams: {crm.leads: {columns: {x: {rename: _penstock_run}}}}\n", `not a name that penstock uses itself`},
		{"rename twice", minimal + "streams: {crm.leads: {columns: {x: {rename: z}, y: {rename: z}}}}\n", `8:61: stream crm.leads columns y rename: x has the name "z" too`},
		{"select nothing", minimal + "streams: {crm.leads: {select: []}}\n", `8:31: stream crm.leads select is empty`},
		{"select twice", minimal + "streams: {crm.leads: {select: [a, a]}}\n", `8:35: stream crm.leads select names "a" twice`},
		{"filter without a test", minimal + "streams: {crm.leads: {filter: [{column: a}]}}\n", `8:32: stream crm.leads filter has 0 tests for one column; want one of`},
		{"filter with two tests", minimal + "streams: {crm.leads: {filter: [{column: a, min: 1, max: 2}]}}\n", `8:32: stream crm.leads filter has 2 tests`},
		{"filter without a column", minimal + "streams: {crm.leads: {filter: [{min: 1}]}}\n", `8:32: stream crm.leads filter has no column`},
		{"filter with a misspelled key", minimal + "streams: {crm.leads: {filter: [{column: a, mni: 1}]}}\n", `8:44: unknown key "mni" in stream crm.leads filter; did you mean "min"?`},
		{"filter with an empty list", minimal + "streams: {crm.leads: {filter: {column: a, in: []}}}\n", `8:47: stream crm.leads filter in is empty`},
		{"stream's schema", minimal + "streams: {crm.leads: {schema: {tables: frozen}}}\n", `8:40: stream crm.leads schema tables "frozen" is unknown`},
		{"pointer", minimal + "streams: {crm.leads: {records: data}}\n", `"data": want a JSON pointer`},
		{"page limit", minimal + "streams: {crm.leads: {pagination: {limit: 0}}}\n", "want a whole number from 1 to 100000"},

		{"open without auth", minimal + "serve: {listen: '0.0.0.0:80'}\n", "serve listen is open to other machines"},
		{"worker open without auth", minimal + "worker: {listen: '0.0.0.0:80'}\n", "worker listen is open to other machines"},
		{"worker listen", minimal + "worker: {listen: '8080'}\n", "worker listen: want host:port, such as 127.0.0.1:8081"},
		{"listen", minimal + "serve: {listen: '8080'}\n", "serve listen: want host:port"},
		{"state", minimal + "state: mysql://x/y\n", "state is neither a directory nor a postgres:// URL"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.yaml), input())
			require.Error(t, err)
			require.Contains(t, err.Error(), tt.want)
			require.NotContains(t, err.Error(), "hush")
			for line := range strings.Lines(err.Error()) {
				require.True(t, strings.HasPrefix(line, "pipelines.yaml:"), line)
			}
		})
	}
}

// On Windows, the lines of a file may end in \r\n. This does not change the positions of errors.
func TestParseWindowsLines(t *testing.T) {
	text := strings.Replace(contract, "mode: merge ", "mode: melt ", 1)
	_, unix := Parse([]byte(text), input())
	_, windows := Parse([]byte(strings.ReplaceAll(text, "\n", "\r\n")), input())
	require.ErrorContains(t, unix, "melt")
	require.EqualError(t, windows, unix.Error())
}

func TestParseReportsEveryFault(t *testing.T) {
	yaml := strings.NewReplacer("pipelines:", "pipelines: # x", "https://app", "http://app", "from: main", "from: nobody", "duckdb:w", "duck:w").Replace(minimal)
	_, err := Parse([]byte(yaml), input())
	faults, ok := errors.AsType[Faults](err)
	require.True(t, ok)
	require.Len(t, faults, 3, err)
	require.True(t, faults[0].Line < faults[1].Line && faults[1].Line < faults[2].Line, "faults are in the order of the file")
}

func TestFaultsHideReferencedValues(t *testing.T) {
	for _, field := range []string{"plan", "rate", "base_url"} {
		yaml := strings.Replace(minimal, "auth:", field+`: "${PENSTOCK_API_KEY}", auth:`, 1)
		_, err := Parse([]byte(yaml), input())
		require.Error(t, err)
		require.NotContains(t, err.Error(), "hush")
	}
	yaml := strings.Replace(minimal, "duckdb:w.duckdb", "${PENSTOCK_API_KEY}", 1)
	_, err := Parse([]byte(yaml), input())
	require.ErrorContains(t, err, "${PENSTOCK_API_KEY}")
	require.NotContains(t, err.Error(), "hush")
}

func TestParseReferences(t *testing.T) {
	for _, tt := range []struct{ raw, want string }{
		{`"${file:key}"`, "sk_file"},
		{`"a${PENSTOCK_API_KEY}b${PENSTOCK_API_KEY}"`, "ask_hushbsk_hush"},
		{`"$${PENSTOCK_API_KEY}"`, "${PENSTOCK_API_KEY}"},
		{`"a$b"`, "a$b"},
		{"0644", "0644"},
		{"true", "true"},
	} {
		c, err := Parse([]byte(strings.Replace(minimal, "token: t", "token: "+tt.raw, 1)), input())
		require.NoError(t, err, tt.raw)
		require.Equal(t, tt.want, c.Sources[0].App.Auth.Token.Reveal(), tt.raw)
	}
}

func TestParseAnchors(t *testing.T) {
	c, err := Parse([]byte(`version: 1
sources:
  a: {app: &app {base_url: "https://a.example", auth: {token: t}}}
  b: {app: {<<: *app, base_url: "https://b.example"}}
  c: {app: *app}
destinations: {w: "duckdb:w"}
pipelines: {p: {from: [a], to: w}}
`), input())
	require.NoError(t, err)
	require.Equal(t, "https://b.example", c.Sources[1].App.BaseURL)
	require.Equal(t, "t", c.Sources[1].App.Auth.Token.Reveal())
	require.Equal(t, "https://a.example", c.Sources[2].App.BaseURL)
}

func TestParseBombs(t *testing.T) {
	laughs := "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range 20 {
		p := string(rune('a' + i))
		n := string(rune('b' + i))
		laughs += n + "0: &" + n + "0 [" + strings.TrimSuffix(strings.Repeat("*"+p+"0,", 9), ",") + "]\n"
	}
	merges := "m0: &m0 {x: 1}\n"
	for i := range 20 {
		p := string(rune('a' + i))
		n := string(rune('b' + i))
		if i == 0 {
			p = "m"
		}
		merges += n + "0: &" + n + "0 {<<: [" + strings.TrimSuffix(strings.Repeat("*"+p+"0,", 9), ",") + "]}\n"
	}
	var keys strings.Builder
	for i := range 80_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for name, yaml := range map[string]string{
		"laughs":     laughs + "streams: {crm.leads: {records: *u0}}\n",
		"merges":     merges + minimal + "streams: *u0\n",
		"itself":     minimal + "streams: &s {crm.leads: *s}\n",
		"merge self": minimal + "streams: &s {<<: *s}\n",
		"huge":       minimal + "#" + strings.Repeat("x", maxBytes),
		"brackets":   "a: " + strings.Repeat("[", 100_000),
		"braces":     strings.Repeat("{a: ", 50_000),
		"dashes":     strings.Repeat("- ", 100_000),
		"questions":  strings.Repeat("? ", 100_000),
		"tags":       strings.Repeat("!a ", 50_000),
		"anchors":    strings.Repeat("&a ", 50_000),
		"keys":       keys.String(),
		"few keys":   keys.String()[:100_000],
		"values":     "streams: [" + strings.Repeat("a,", 400_000) + "a]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(yaml), input())
			require.Error(t, err)
			require.Less(t, len(err.Error()), 32<<10)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(contract))
	f.Add([]byte(minimal))
	f.Add([]byte(minimal + "streams: {crm.leads: {select: [a], filter: [{column: a, in: [1_0]}], schema: {types: freeze}, columns: {a: hash, b: {mask: partial, keep: 3, rename: c}, d: date}}}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte(strings.Replace(minimal, "token: t", `token: "${file:key}"`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := input()
		c, err := Parse(data, in)
		if err == nil {
			for _, p := range c.Pipelines {
				_, err := c.Select(p, nil)
				require.NoError(t, err)
			}
			return
		}
		faults, ok := errors.AsType[Faults](err)
		require.True(t, ok && len(faults) > 0, "%T", err)
		require.NotContains(t, err.Error(), "hush")
	})
}
