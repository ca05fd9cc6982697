package schemas

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func catalogue(t testing.TB) *Catalogue {
	t.Helper()
	c, err := Load()
	require.NoError(t, err)
	return c
}

func documented(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open("testdata/endpoints.txt")
	require.NoError(t, err)
	defer f.Close()
	groups := make(map[string][]string)
	var title string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		switch line := lines.Text(); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			title = strings.Trim(line, "[]")
		default:
			groups[title] = append(groups[title], line)
		}
	}
	return groups
}

func TestCatalogueHasEachDocumentedEndpointOnce(t *testing.T) {
	got := make(map[string][]string)
	for _, s := range catalogue(t).Streams() {
		got[s.Group] = append(got[s.Group], s.Method+" "+s.Path)
	}
	want := documented(t)
	require.ElementsMatch(t, slices.Collect(maps.Keys(want)), slices.Collect(maps.Keys(got)))
	for title, calls := range want {
		require.ElementsMatch(t, calls, got[title], title)
	}
}

func TestCatalogueHasTheDocumentedCounts(t *testing.T) {
	want := map[string]int{
		"Authentication and session":   11,
		"API keys":                     3,
		"CRM: leads, deals, pipelines": 79,
		"Sales":                        23,
		"Sales proposals":              9,
		"Sales invoices":               6,
		"Sales invoice returns":        6,
		"Purchase invoices":            6,
		"Purchase returns":             6,
		"Accounting":                   37,
		"Products and services":        20,
		"Warehouse and inventory":      9,
		"Projects, tasks and bugs":     45,
		"Point of sale":                2,
		"Support desk":                 16,
		"Lightweight projects module":  18,
		"Time tracking":                3,
		"Users and roles":              8,
		"HR and payroll":               44,
		"Third-party API v1":           7,
		"Public endpoints":             4,
		"White-label platform":         6,
		"Integration endpoints":        3,
		"Other endpoints":              1,
		"v2 /v2/contacts":              5,
		"v2 /v2/invoices":              4,
		"v2 /v2/tickets":               3,
	}
	got := make(map[string]int)
	surfaces := make(map[Surface]int)
	for _, s := range catalogue(t).Streams() {
		surfaces[s.Surface]++
		if s.Surface == SurfaceV2 {
			got["v2 /v2/"+strings.Split(s.Path, "/")[2]]++
			continue
		}
		got[s.Group]++
	}
	require.Equal(t, want, got)
	require.Equal(t, map[Surface]int{SurfaceApp: 372, SurfaceV2: 12}, surfaces)
}

// readingPosts are the endpoints that only read although their method is POST.
var readingPosts = []string{
	"/api/hrm/attendence-history",
	"/api/hrm/events",
	"/api/lead/home",
	"/api/lead/lead-details",
	"/api/lead/lead-stages",
	"/api/lead/leadboard",
	"/api/sales/get-warehouse-products",
	"/api/sales/parent-records",
	"/api/taskly/project-activity",
	"/api/taskly/project-details",
	"/api/taskly/project-list",
	"/api/taskly/task-details",
	"/api/taskly/task-list",
	"/api/taskly/taskboard",
}

func TestCatalogueReadsNothingThatWrites(t *testing.T) {
	var posts []string
	gets := make(map[Surface]int)
	for _, s := range catalogue(t).Streams() {
		switch {
		case s.Method == "GET":
			require.True(t, s.Readable(), "%s is a GET", s.Name)
			gets[s.Surface]++
		case s.Readable():
			require.Equal(t, "POST", s.Method, "%s is readable", s.Name)
			posts = append(posts, s.Path)
		}
	}
	slices.Sort(posts)
	require.Equal(t, readingPosts, posts)
	require.Equal(t, map[Surface]int{SurfaceApp: 136, SurfaceV2: 5}, gets)
}

func TestCatalogueKeepsSessionsForTheCredentials(t *testing.T) {
	var sessions []string
	for _, s := range catalogue(t).Streams() {
		if s.Class == ClassSession {
			sessions = append(sessions, s.Path)
		}
	}
	require.ElementsMatch(t, []string{"/api/login", "/api/logout", "/api/refresh", "/api/tracker-login"}, sessions)
}

func TestCatalogueNamesTables(t *testing.T) {
	for _, s := range catalogue(t).Streams() {
		prefix := map[Surface]string{SurfaceApp: "/api/", SurfaceV2: "/v2/"}[s.Surface]
		require.True(t, strings.HasPrefix(s.Path, prefix), "%s: path %s", s.Name, s.Path)
		if !s.Readable() {
			require.Empty(t, s.Table.Name, s.Name)
			require.False(t, s.Enabled, s.Name)
			continue
		}
		require.Equal(t, strings.ReplaceAll(s.Name, ".", "_"), s.Table.Name)
		require.NotContains(t, s.Table.Name, "__", "%s: only names of child tables have __", s.Name)
		if s.Class != ClassFile {
			require.NotEmpty(t, s.Records, s.Name)
		}
	}
}

func TestCatalogueKeepsPublishedNames(t *testing.T) {
	c := catalogue(t)
	for _, name := range []string{
		"v2.contacts", "crm.leads", "accounting.bank_accounts", "hr.leave_types",
		"projects.task_board", "hr.payslips", "hr.employees", "sales.invoices",
	} {
		_, ok := c.Find(name)
		require.True(t, ok, name)
	}
	_, ok := c.Find("crm.nothing")
	require.False(t, ok)
}

var contextColumn = regexp.MustCompile(`^_context__([a-z0-9_]+)$`)

func TestCatalogueContextsExist(t *testing.T) {
	c := catalogue(t)
	gives := func(s Stream, name string) bool {
		return s.Context == name || slices.ContainsFunc(s.Params, func(p Param) bool { return p.Name == name })
	}
	for _, s := range c.Streams() {
		for _, k := range s.Key {
			if m := contextColumn.FindStringSubmatch(k); m != nil {
				require.True(t, gives(s, m[1]), "%s: key %s", s.Name, k)
			}
		}
		parent, _ := c.Find(s.Parent)
		for _, p := range s.Params {
			if name, ok := strings.CutPrefix(p.From, "/_context/"); ok {
				require.True(t, gives(parent, name), "%s: param %s from %s", s.Name, p.Name, p.From)
			}
		}
		if s.Context != "" {
			require.True(t, slices.ContainsFunc(s.Records, func(p string) bool { return strings.Contains(p, "*") }),
				"%s has the context %s, but no * in its pointers to records", s.Name, s.Context)
		}
	}
}

func TestCatalogueDeclaresColumnsByTheirNames(t *testing.T) {
	for _, s := range catalogue(t).Streams() {
		for column := range s.Types {
			source := strings.ReplaceAll(column, "__", "/")
			require.Equal(t, column, Column("/"+source), s.Name)
		}
		for _, k := range s.Key {
			require.NotContains(t, s.Volatile, k, s.Name)
		}
	}
}

func TestCatalogueParentsComeFirst(t *testing.T) {
	c := catalogue(t)
	ordered := c.Ordered()
	require.Equal(t, 136+14+5, len(ordered))
	seen := make(map[string]bool)
	for _, s := range ordered {
		require.True(t, s.Parent == "" || seen[s.Parent], "%s before %s", s.Name, s.Parent)
		require.False(t, seen[s.Name], "%s twice", s.Name)
		seen[s.Name] = true
	}
	var children []string
	for _, s := range c.Children("crm.lead_board") {
		children = append(children, s.Name)
	}
	require.Equal(t, []string{"crm.lead_show", "crm.lead_detail"}, children)
}

func TestCatalogueReturnsCopies(t *testing.T) {
	c := catalogue(t)
	c.Streams()[0].Name = "changed"
	require.NotEqual(t, "changed", c.Streams()[0].Name)
}

func TestCatalogueWith(t *testing.T) {
	c := catalogue(t)
	leads, _ := c.Find("crm.leads")
	leads.Records = []string{"/data/rows"}
	own := stream("blog.posts")
	changed, err := c.With(leads, own)
	require.NoError(t, err)
	require.Equal(t, 385, len(changed.Streams()))
	got, _ := changed.Find("crm.leads")
	require.Equal(t, []string{"/data/rows"}, got.Records)

	before, _ := c.Find("crm.leads")
	require.NotEqual(t, got.Records, before.Records, "the first catalogue does not change")

	own.Parent = "blog.authors"
	_, err = c.With(own)
	require.EqualError(t, err, `stream blog.posts: parent: there is no stream "blog.authors"`)
}

func stream(name string) Stream {
	module, _, _ := strings.Cut(name, ".")
	return Stream{
		Table: Table{Name: strings.ReplaceAll(name, ".", "_"), Key: []string{"id"}},
		Name:  name, Module: module, Surface: SurfaceApp,
		Method: "GET", Path: "/api/" + strings.ReplaceAll(name, ".", "/"), Class: ClassList, Enabled: true,
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		if _, err := Load(); err != nil {
			b.Fatal(err)
		}
	}
}
