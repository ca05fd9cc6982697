package config

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func listedAt(t testing.TB, template, hosts string, row map[string]string) Source {
	t.Helper()
	in := input()
	in.Rows = func(Listing) ([]Row, error) {
		fields := map[string]string{"name": "one"}
		for k, v := range row {
			fields[k] = v
		}
		return []Row{{File: "w.csv", Line: 7, Fields: fields}}, nil
	}
	text := strings.Replace(minimal, minimal[strings.Index(minimal, "  main:"):strings.Index(minimal, "destinations:")],
		"  from: {file: w.csv"+hosts+"}\n  template: {app: {base_url: '"+template+"', auth: {token: 't'}}}\n", 1)
	conf, err := Parse([]byte(strings.Replace(text, "from: main", "from: '*'", 1)), in)
	require.NoError(t, err, text)
	require.Len(t, conf.Sources, 1)
	return conf.Sources[0]
}

// A row may fill in one label of the host. It must not be able to choose another host. // Invariant 10
func TestRowsChooseNoHost(t *testing.T) {
	const label = "https://{ws}.example.com"
	for _, c := range []struct{ template, hosts, ws, want, fault string }{
		{label, "", "acme", "https://acme.example.com", ""},
		{label, "", "acme-eu_2", "https://acme-eu_2.example.com", ""},
		{label, "", "ACME", "https://acme.example.com", ""},
		{label, "", "evil.test/", "", "{ws} is in the host"},
		{label, "", "evil.test?", "", "{ws} is in the host"},
		{label, "", "evil.test#", "", "{ws} is in the host"},
		{label, "", `evil.test\`, "", "{ws} is in the host"},
		{label, "", "evil.test:443/", "", "{ws} is in the host"},
		{label, "", "me:pw@evil.test/", "", "{ws} is in the host"},
		{label, "", "me@evil", "", "{ws} is in the host"},
		{label, "", "evil.test%2f", "", "{ws} is in the host"},
		{label, "", "eu.acme", "", "`hosts:` under `from` allows several parts"},
		{label, "", "", "", "empty part"},
		{label, `, hosts: ["*.example.com"]`, "eu.acme", "https://eu.acme.example.com", ""},
		{label, `, hosts: ["*.acme.example.com"]`, "acme", "", "not in `hosts:`"},
		{label, `, hosts: ["acme.example.com"]`, "acme", "https://acme.example.com", ""},
		{label, `, hosts: ["acme.example.com"]`, "other", "", "not in `hosts:`"},
		{label, `, hosts: ["*.example.com"]`, "a..b", "", "empty part"},
		{"https://api.example.com{ws}", "", ".evil.test", "", "{ws} is in the host"},
		{"https://api.example.com{ws}", "", "@evil.test", "", "{ws} is in the host"},
		{"https://api.example.com{ws}", "", "/acme", "", "a path needs a / before the field"},
		{"https://api.example.com:{ws}", "", "8443", "https://api.example.com:8443", ""},
		{"https://api.example.com:{ws}", "", "1@evil.test", "", "{ws} is in the host"},
		{"https://api.example.com/{ws}", "", "acme", "https://api.example.com/acme", ""},
		{"https://api.example.com/{ws}", "", "a/b", "https://api.example.com/a/b", ""},
		{"https://api.example.com/{ws}", "", "/evil.test", "https://api.example.com//evil.test", ""},
		{"https://api.example.com/x/{ws}", "", "../admin", "", "in the path"},
		{"https://api.example.com/x/{ws}", "", "%2e%2e/admin", "", "in the path"},
		{"https://api.example.com/{ws}", "", "a?b=c", "", "in the path"},
		{"https://api.example.com/{ws}", "", `a\b`, "", "in the path"},
		{"{ws}://api.example.com", "", "https", "https://api.example.com", ""},
		{"{ws}://api.example.com", "", "https://evil.test/", "", "is the scheme"},
		{"{ws}.example.com", "", "https://evil.test/", "", "{ws} is in the host"},
		{"{ws}", "", "https://acme.example.test", "https://acme.example.test", ""},
		{"{ws}", `, hosts: ["*.example.com"]`, "https://acme.example.com/x", "https://acme.example.com/x", ""},
		{"{ws}", `, hosts: ["*.example.com"]`, "https://evil.test", "", "not in `hosts:`"},
		{"{ws}", `, hosts: ["*.example.com"]`, "https://example.com.evil.test", "", "not in `hosts:`"},
		{"{ws}", `, hosts: ["*.example.com"]`, "https://evilexample.com", "", "not in `hosts:`"},
		{"{ws}", `, hosts: ["*.example.com"]`, "https://example.com@evil.test", "", "user or password"},
		{"${PENSTOCK_V2_URL}/{ws}", "", "acme", "https://api.example.com/acme", ""},
		{"${PENSTOCK_V2_URL}{ws}", "", ".evil.test", "", "{ws} is in the host"},
	} {
		s := listedAt(t, c.template, c.hosts, map[string]string{"ws": c.ws})
		if c.fault != "" {
			require.ErrorContains(t, s.Faults, c.fault, "%s of %q", c.template, c.ws)
			if !strings.Contains(c.fault, "user or") {
				require.ErrorContains(t, s.Faults, "w.csv:7", "the error names the row")
			}
			if c.ws != "" {
				require.NotContains(t, s.Faults.Error(), c.ws, "the error must not quote the value, because it may be secret")
			}
			continue
		}
		require.Nil(t, s.Faults, "%s of %q", c.template, c.ws)
		require.Equal(t, c.want, s.App.BaseURL)
	}
}

func TestHostPatterns(t *testing.T) {
	for _, pattern := range []string{"https://x.test", "x.test/", "x.test:443", "*", "a.*.test", "*x.test", "x..test", "user@x.test"} {
		_, err := Parse([]byte(strings.Replace(minimal, "  main:\n", "  from: {file: w.csv, hosts: ['"+pattern+"']}\n  template: {app: {base_url: https://x.test, auth: {token: t}}}\n  main:\n", 1)), input())
		require.ErrorContains(t, err, "want the name of a host", pattern)
	}
}

// fuzzTemplates are URLs. Whatever the row contains, the host of the resulting URL must match the expression.
var fuzzTemplates = []struct {
	text string
	host *regexp.Regexp
	more string
}{
	{"https://{a}.example.com", regexp.MustCompile(`^[a-z0-9_-]+\.example\.com$`), ""},
	{"https://{a}{b}.example.com/{b}", regexp.MustCompile(`^[a-z0-9_-]+\.example\.com$`), ""},
	{"https://{a}.{b}.example.com:{b}", regexp.MustCompile(`^[a-z0-9_-]+\.[a-z0-9_-]+\.example\.com$`), ""},
	{"https://api.example.com{a}{b}", regexp.MustCompile(`^api\.example\.com[a-z0-9_-]*$`), ""},
	{"https://api.example.com/{a}/{b}", regexp.MustCompile(`^api\.example\.com$`), ""},
	{"{a}://api.example.com/{b}", regexp.MustCompile(`^api\.example\.com$`), ""},
	{"https://{a}.example.com/x{b}", regexp.MustCompile(`^([a-z0-9_-]+\.)+example\.com$`), `, hosts: ["*.example.com"]`},
	{"{a}", regexp.MustCompile(`^([a-z0-9_-]+\.)*example\.com$`), `, hosts: ["*.example.com", "example.com"]`},
	{"{a}/{b}", regexp.MustCompile(`^([a-z0-9_-]+\.)*example\.com$`), `, hosts: ["*.example.com", "example.com"]`},
	{"{a}{b}", regexp.MustCompile(`^([a-z0-9_-]+\.)*example\.com$`), `, hosts: ["*.example.com", "example.com"]`},
	{"{a}{b}.example.com", regexp.MustCompile(`^$`), ""},
}

// FuzzListTemplate checks the host of the resulting URL in two ways: as Go parses it, and as a browser would.
func FuzzListTemplate(f *testing.F) {
	for _, s := range [][2]string{
		{"acme", "eu"}, {"evil.test/", ""}, {"me:pw@evil.test/", "x"}, {`evil.test\`, "@evil.test"}, {"https", "a"}, {"https://evil.test/?", "//evil.test"},
		{"https://a.example.com", ".evil.test"}, {"evil.test%2f", "%2e%2e"}, {"[::1]", "443"}, {"ｅｖｉｌ", "。"}, {"a\tb", "\n"}, {"https:", "//evil.test/"},
	} {
		for i := range fuzzTemplates {
			f.Add(i, s[0], s[1])
		}
	}
	f.Fuzz(func(t *testing.T, which int, a, b string) {
		c := fuzzTemplates[uint(which)%uint(len(fuzzTemplates))]
		s := listedAt(t, c.text, c.more, map[string]string{"a": a, "b": b})
		if s.Faults != nil {
			return
		}
		u, err := url.Parse(s.App.BaseURL)
		require.NoError(t, err)
		require.Regexp(t, c.host, u.Hostname())
		require.Nil(t, u.User)
		require.Empty(t, u.RawQuery+u.Fragment)
		// A browser takes the text before the first of these characters as host and port.
		authority := strings.TrimPrefix(strings.TrimPrefix(s.App.BaseURL, "https://"), "http://")
		if i := strings.IndexAny(authority, `/\?#`); i >= 0 {
			authority = authority[:i]
		}
		require.Equal(t, u.Host, authority)
	})
}
