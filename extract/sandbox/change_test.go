package sandbox_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
)

func (d *harness) writing(method, path string, body any) answer {
	d.t.Helper()
	token := sandbox.WritingToken
	if strings.HasPrefix(path, "/v2/") {
		token = sandbox.WritingKey
	}
	return d.call(method, path, token, body)
}

func TestWritesChangeTheTruth(t *testing.T) {
	t.Parallel()
	tests := []struct {
		stream, create, update, remove string
		row, change                    map[string]any
	}{
		{"crm.lead_board", "POST /api/lead/create", "POST /api/lead/update/{id}", "DELETE /api/lead/delete/{id}",
			map[string]any{"name": "Ada", "email": "ada@example.test", "pipeline_id": 2, "stage_id": 7}, map[string]any{"subject": "Änderung"}},
		{"crm.deals", "POST /api/deal/create", "POST /api/deal/update/{id}", "DELETE /api/deal/delete/{id}",
			map[string]any{"name": "Big", "pipeline_id": 1, "stage_id": 2}, map[string]any{"status": "Won"}},
		{"sales.invoices", "POST /api/sales-invoice/create", "POST /api/sales-invoice/post/{id}", "DELETE /api/sales-invoice/delete/{id}",
			map[string]any{"customer_id": 42, "invoice_date": "2026-11-20", "status": "draft"}, nil},
		{"purchases.invoices", "POST /api/purchase-invoice/create", "POST /api/purchase-invoice/update/{id}", "DELETE /api/purchase-invoice/delete/{id}",
			map[string]any{"vendor_id": 80, "invoice_date": "2026-11-20"}, map[string]any{"notes": "late"}},
		{"accounting.customers", "POST /api/customers/create", "POST /api/customers/update/{id}", "DELETE /api/customers/delete/{id}",
			map[string]any{"company_name": "ACME"}, map[string]any{"balance": "7.00"}},
		{"support.tickets", "POST /api/support-ticket/ticket/store", "POST /api/support-ticket/ticket/update/{id}", "POST /api/support-ticket/ticket/delete/{id}",
			map[string]any{"name": "Ada", "email": "a@example.test", "subject": "Help"}, map[string]any{"status": "Closed"}},
		{"projects.projects", "POST /api/projects/create", "POST /api/project/update/{id}", "DELETE /api/project/delete/{id}",
			map[string]any{"name": "Moon"}, map[string]any{"status": "Finished"}},
		{"hr.employees", "POST /api/employee/create", "POST /api/employee/update/{id}", "DELETE /api/employee/delete/{id}",
			map[string]any{"basic_salary": "1.00", "employee_id": "EMP99"}, map[string]any{"city": "Ōsaka"}},
		{"products.items", "POST /api/product/create", "POST /api/product/update/{id}", "DELETE /api/product/delete/{id}",
			map[string]any{"name": "Stool"}, map[string]any{"sku": "000001"}},
		{"v1.customers", "POST /api/v1/customers", "PUT /api/v1/customers/{id}", "DELETE /api/customers/delete/{id}",
			map[string]any{"company_name": "ACME"}, map[string]any{"tax_number": "1"}},
		{"v2.contacts", "POST /v2/contacts", "PUT /v2/contacts/{id}", "DELETE /v2/contacts/{id}",
			map[string]any{"name": "Ada", "tags": []string{"x"}}, map[string]any{"email": "new@example.test"}},
	}
	for _, tt := range tests {
		t.Run(tt.stream, func(t *testing.T) {
			t.Parallel()
			d := open(t, sandbox.Options{NoLimits: true})
			before := d.truth(tt.stream)
			id := d.make(tt.create, tt.row)
			created := d.truth(tt.stream)
			require.Len(t, created, len(before)+1)
			require.NotNil(t, find(created, id), "the new record is listed")

			method, path, _ := strings.Cut(strings.Replace(tt.update, "{id}", id, 1), " ")
			require.Equal(t, http.StatusOK, d.writing(method, path, tt.change).status)
			changed := d.truth(tt.stream)
			require.Len(t, changed, len(created))
			require.NotEqual(t, find(created, id), find(changed, id), "the record has changed")

			method, path, _ = strings.Cut(strings.Replace(tt.remove, "{id}", id, 1), " ")
			require.Equal(t, http.StatusOK, d.writing(method, path, nil).status)
			require.Empty(t, difference(texts(t, before), texts(t, d.truth(tt.stream))))

			s, _ := d.catalogue.Find(tt.stream)
			require.Empty(t, difference(texts(t, before), texts(t, d.read(s))), "the served list equals the truth")
			require.Equal(t, 3, d.Stats().OutsideSum)
		})
	}
}

func (d *harness) make(route string, row any) string {
	d.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	a := d.writing(method, path, row)
	require.Contains(d.t, []int{http.StatusOK, http.StatusCreated}, a.status, "%s", a.body)
	envelope, _ := a.json(d.t).(map[string]any)
	if data, ok := envelope["data"].(map[string]any); ok {
		envelope = data
	}
	require.NotNil(d.t, envelope["id"], "%s", a.body)
	return fmt.Sprint(envelope["id"])
}

func find(records []any, id string) any {
	for _, r := range records {
		if fmt.Sprint(r.(map[string]any)["id"]) == id {
			return r
		}
	}
	return nil
}

func TestEveryWriteAnswers(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	for _, s := range d.catalogue.Streams() {
		if s.Class != schemas.ClassWrite {
			continue
		}
		token := tokenOf(s)
		if strings.HasPrefix(s.Path, "/api/wl/") {
			token = sandbox.WhiteLabelToken
		}
		path := s.Path
		for strings.Contains(path, "{") {
			open, end := strings.Index(path, "{"), strings.Index(path, "}")
			path = path[:open] + "1" + path[end+1:]
		}
		a := d.call(s.Method, path, token, map[string]any{})
		if token != sandbox.WhiteLabelToken && s.Path != "/api/widget/lead" {
			require.Equal(t, http.StatusForbidden, a.status, "%s with a read-only credential: %s", s.Name, a.body)
			a = d.writing(s.Method, path, map[string]any{})
		}
		require.Less(t, a.status, 500, "%s: %s", s.Name, a.body)
		require.True(t, json.Valid(a.body), s.Name)
	}
	require.Empty(t, slices.Collect(func(yield func(string) bool) {
		for _, c := range d.Stats().Calls {
			if c.Stream == "" && !yield(c.Path) {
				return
			}
		}
	}), "every write is a route of the catalogue")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	tests := []struct {
		name, method, path, token string
		body                      any
		status                    int
		contains                  string
	}{
		{"no key", "GET", "/v2/contacts", "", nil, 401, `"code":"unauthorized"`},
		{"token of the other surface", "GET", "/v2/contacts", sandbox.ReadOnlyToken, nil, 401, `"message"`},
		{"no token", "GET", "/api/customers", "", nil, 401, `{"message":"Unauthenticated."}`},
		{"white label with a plain token", "GET", "/api/wl/plans", sandbox.ReadOnlyToken, nil, 401, "Invalid token"},
		{"no such contact", "GET", "/v2/contacts/con_0", sandbox.ReadOnlyKey, nil, 404, `"code":"resource_missing"`},
		{"an invalid limit", "GET", "/v2/contacts?limit=many", sandbox.ReadOnlyKey, nil, 400, `"code":"invalid_request"`},
		{"no such lead, D1", "POST", "/api/lead/lead-details", sandbox.ReadOnlyToken, map[string]any{"pipeline_id": 1, "lead_id": 999}, 400, `"errors":404`},
		{"lead of another pipeline", "POST", "/api/lead/lead-details", sandbox.ReadOnlyToken, map[string]any{"pipeline_id": 9, "lead_id": 1}, 400, "Not Found"},
		{"validation, D1", "POST", "/api/lead/leadboard", sandbox.ReadOnlyToken, map[string]any{}, 422, `"pipeline_id":["The pipeline id field is required."]`},
		{"no such deal, D2", "GET", "/api/deal/show/999", sandbox.ReadOnlyToken, nil, 404, `"error":"Deal Not Found!"`},
		{"no such quote, D3", "GET", "/api/sales/quotes/999", sandbox.ReadOnlyToken, nil, 200, `"status":0`},
		{"validation, D3", "POST", "/api/sales/get-warehouse-products", sandbox.ReadOnlyToken, nil, 403, `"status":0`},
		{"wrong method", "GET", "/api/taskly/project-list", sandbox.ReadOnlyToken, nil, 405, "Supported methods: POST"},
		{"no such route", "GET", "/api/foo", sandbox.ReadOnlyToken, nil, 404, "could not be found"},
		{"validation of a write", "POST", "/api/lead/create", sandbox.WritingToken, map[string]any{"name": "x"}, 422, "email"},
		{"write to a deleted record", "DELETE", "/api/lead/delete/999", sandbox.WritingToken, nil, 400, "Not Found"},
	}
	for _, tt := range tests {
		a := d.call(tt.method, tt.path, tt.token, tt.body)
		require.Equal(t, tt.status, a.status, "%s: %s", tt.name, a.body)
		require.Contains(t, string(a.body), tt.contains, tt.name)
	}
}

func TestModuleOff(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{Modules: map[string]bool{"hr": false}})
	a := d.call("GET", "/api/branches", sandbox.ReadOnlyToken, nil)
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, string(a.body), `"status":"error"`)
	require.Equal(t, http.StatusOK, d.call("GET", "/api/customers", sandbox.ReadOnlyToken, nil).status)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	login := map[string]any{"email": sandbox.LoginEmail, "password": sandbox.LoginPassword}
	token := func(a answer) string {
		require.Equal(t, http.StatusOK, a.status, "%s", a.body)
		return a.json(t).(map[string]any)["data"].(map[string]any)["token"].(string)
	}
	works := func(token string) bool {
		return d.call("GET", "/api/branches", token, nil).status == http.StatusOK
	}
	require.Equal(t, http.StatusUnauthorized, d.call("POST", "/api/login", "", map[string]any{"email": "x", "password": "y"}).status)
	first := token(d.call("POST", "/api/login", "", login))
	require.True(t, works(first))
	second := token(d.call("POST", "/api/login", "", login))
	require.False(t, works(first), "a login ends the user's other tokens")
	third := token(d.call("POST", "/api/refresh", second, nil))
	require.False(t, works(second), "a refresh ends the token with which it was requested")
	require.True(t, works(third))
	require.Equal(t, http.StatusOK, d.call("POST", "/api/logout", third, nil).status)
	require.False(t, works(third))
	require.True(t, works(sandbox.ReadOnlyToken), "the fixed tokens stay")
}

func TestSameSeedSameData(t *testing.T) {
	t.Parallel()
	one, same, other := open(t, sandbox.Options{Seed: 5}), open(t, sandbox.Options{Seed: 5}), open(t, sandbox.Options{Seed: 6})
	for _, stream := range []string{"crm.leads", "sales.invoices", "hr.employees", "v2.contacts", "users.users"} {
		a, _ := one.Truth(stream)
		b, _ := same.Truth(stream)
		c, _ := other.Truth(stream)
		require.Equal(t, a, b, stream)
		require.NotEqual(t, a, c, stream)
	}
	one.make("POST /api/lead/create", map[string]any{"name": "Ada", "email": "a@example.test", "pipeline_id": 1, "stage_id": 1})
	one.Reset()
	a, _ := one.Truth("crm.leads")
	b, _ := same.Truth("crm.leads")
	require.Equal(t, b, a, "reset puts everything back")
}

func TestScale(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{Scale: 3, NoLimits: true})
	for stream, want := range map[string]int{"crm.lead_board": 3 * 44, "support.tickets": 3 * 84, "crm.pipelines": 3, "products.taxes": 4} {
		require.Len(t, d.truth(stream), want, stream)
		s, _ := d.catalogue.Find(stream)
		require.Empty(t, difference(texts(t, d.truth(stream)), texts(t, d.read(s))))
	}
}

func TestTouchChangesAShare(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{})
	before := texts(t, d.truth("accounting.bank_transactions"))
	touched := d.Touch(0.5)
	after := texts(t, d.truth("accounting.bank_transactions"))
	kept := map[string]bool{}
	for _, r := range before {
		kept[r] = true
	}
	changed := len(slices.DeleteFunc(slices.Clone(after), func(r string) bool { return kept[r] }))
	require.Greater(t, touched, changed)
	require.InDelta(t, len(before)/2, changed, 40)
	require.NotEmpty(t, maps.Keys(kept))
}

func TestConversion(t *testing.T) {
	t.Parallel()
	d := open(t, sandbox.Options{NoLimits: true})
	deals := len(d.truth("crm.deals"))
	lead := d.make("POST /api/lead/create", map[string]any{"name": "Ada", "email": "a@example.test", "pipeline_id": 1, "stage_id": 1})
	deal := d.make("POST /api/lead/convert-to-deal/"+lead, map[string]any{})
	require.Len(t, d.truth("crm.deals"), deals+1)
	row, ok := find(d.truth("crm.leads"), lead).(map[string]any)
	require.True(t, ok)
	require.Equal(t, deal, fmt.Sprint(row["is_converted"]))
	require.Equal(t, "Ada", find(d.truth("crm.deals"), deal).(map[string]any)["name"])
}
