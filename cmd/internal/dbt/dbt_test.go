package dbt

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// dictionary describes invoices with their lines, users, and a board with the history of its leads.
func dictionary(kind string) render.Dictionary {
	d := render.Dictionary{Destination: "warehouse", Kind: kind, Views: []render.ViewDoc{{Name: "crm_leads_current"}, {Name: "receivables_ageing", Title: "Receivables"}}}
	add := func(module string, t render.TableDoc) {
		t.Selected, t.Of.Module, t.Stream = true, module, strings.Replace(t.Name, "_", ".", 1)
		for i := range t.Columns {
			c := &t.Columns[i]
			c.Source = "/" + strings.ReplaceAll(c.Name, "__", "/")
			for _, k := range t.Key {
				c.Key = c.Key || c.Name == k
			}
		}
		d.Add(module, t)
	}
	add("sales", render.TableDoc{Name: "sales_invoices", Mode: "merge", Key: []string{"id"}, Columns: []render.ColumnDoc{
		{Name: "id", Type: "int64"}, {Name: "customer_id", Type: "int64"}, {Name: "status", Type: "text"}, {Name: "notes", Type: "text"},
		{Name: "extra", Type: "json"}, {Name: schemas.ColDeletedAt, Type: "timestamp"},
	}})
	add("sales", render.TableDoc{Name: "sales_invoices__items", Parent: "sales_invoices", Mode: "merge", Key: []string{schemas.ColParent, schemas.ColIndex}, Columns: []render.ColumnDoc{
		{Name: "invoice_id", Type: "text"}, {Name: schemas.ColParent, Type: "int64"}, {Name: schemas.ColIndex, Type: "int64"}, {Name: schemas.ColDeletedAt, Type: "timestamp"},
	}})
	add("users", render.TableDoc{Name: "users_users", Mode: "merge", Key: []string{"id"}, Columns: []render.ColumnDoc{{Name: "id", Type: "int64"}, {Name: "email", Type: "text", Mask: "hmac"}}})
	add("crm", render.TableDoc{Name: "crm_leads", Mode: "history", Key: []string{"id"}, Columns: []render.ColumnDoc{
		{Name: "id", Type: "int64"}, {Name: "score", Type: "int64"}, {Name: schemas.ColValidTo, Type: "timestamp"},
	}, Of: config.Stream{Checks: []config.Check{{Check: schemas.Check{Kind: schemas.CheckNotNull, Columns: []string{"score"}, Hold: true}}}}})
	d.Add("crm", render.TableDoc{Name: "crm_old", Mode: "merge"})
	return d
}

func projectOf(t *testing.T, d render.Dictionary) map[string]string {
	t.Helper()
	files, err := Project(d)
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range files {
		all[f.Path] = string(f.Text)
		if strings.HasSuffix(f.Path, ".yml") {
			var content map[string]any
			require.NoError(t, yaml.Unmarshal(f.Text, &content), f.Path)
		}
		require.Equal(t, !f.Once, strings.Contains(strings.SplitN(string(f.Text), "\n", 2)[0], Mark), f.Path)
	}
	return all
}

func TestProject(t *testing.T) {
	t.Parallel()
	files := projectOf(t, dictionary("duckdb"))
	require.NotContains(t, strings.Join(keys(files), " "), "crm_old", "a table that no pipeline loads any more")
	invoices := files["models/staging/sales/stg_sales__invoices.sql"]
	require.Contains(t, invoices, `{{ penstock_json('"extra"') }} as "extra"`)
	require.Contains(t, invoices, `from {{ source('sales', 'sales_invoices') }}`+"\n"+`where "_penstock_deleted_at" is null`)
	require.Contains(t, files["models/staging/crm/stg_crm__leads.sql"], `from {{ source('crm', 'crm_leads_current') }}`)
	models := files["models/staging/sales/_sales__models.yml"]
	require.Contains(t, models, "to: ref('stg_users__users')")
	require.Contains(t, models, `where: "\"customer_id\" <> 0"`)
	require.Contains(t, models, `column_name: cast("invoice_id" as varchar)`)
	require.Contains(t, models, "- overdue")
	require.NotContains(t, models, "name: notes", "nothing is known about this column")
	require.Contains(t, files["models/staging/crm/_crm__models.yml"], "not_null")
	sources := files["models/staging/sales/_sales__sources.yml"]
	require.Contains(t, sources, "to: source('sales', 'sales_invoices')")
	require.Contains(t, sources, `"stream" = 'sales.invoices' and "verdict" in (`)
	require.Contains(t, sources, "data_type: varchar\n")
	require.Contains(t, files["models/staging/penstock/_penstock__sources.yml"], "receivables_ageing")
	postgres := projectOf(t, dictionary("postgres"))
	require.Contains(t, postgres["models/staging/sales/_sales__sources.yml"], "data_type: jsonb")
	require.Contains(t, postgres["profiles.yml"], "PGHOST")
}

// TestReferences checks that each source and model to which a file refers is part of the project.
func TestReferences(t *testing.T) {
	t.Parallel()
	files := projectOf(t, dictionary("duckdb"))
	found := 0
	for name, text := range files {
		if !strings.HasPrefix(name, "models/") {
			continue
		}
		for _, m := range regexp.MustCompile(`(?:ref\('(\w+)'\)|source\('(\w+)', '(\w+)'\))`).FindAllStringSubmatch(text, -1) {
			found++
			if m[1] != "" {
				module, _, _ := strings.Cut(strings.TrimPrefix(m[1], "stg_"), "__")
				require.Contains(t, files, "models/staging/"+module+"/"+m[1]+".sql")
				continue
			}
			require.Regexp(t, `(?m)^      - name: `+m[3]+`$`, files["models/staging/"+m[2]+"/_"+m[2]+"__sources.yml"], name)
		}
	}
	require.Greater(t, found, 5)
}

// TestWrite checks that files of the user stay, and that files of tables that are gone are removed.
func TestWrite(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	put := func(name string, text []byte) error {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(name, text, 0o600)
	}
	files, err := Project(dictionary("duckdb"))
	require.NoError(t, err)
	done, err := Write(folder, files, put)
	require.NoError(t, err)
	require.Equal(t, Done{Written: len(files)}, done)
	own, settings := filepath.Join(folder, "models/staging/users/stg_users__users.sql"), filepath.Join(folder, "dbt_project.yml")
	require.NoError(t, put(own, []byte("select 1")))
	require.NoError(t, put(settings, []byte("name: mine")))
	d := dictionary("duckdb")
	d.Groups = d.Groups[:2] // without the module crm
	files, err = Project(d)
	require.NoError(t, err)
	done, err = Write(folder, files, put)
	require.NoError(t, err)
	require.Equal(t, []string{own}, done.Kept)
	require.Equal(t, 3, done.Removed)
	require.NoDirExists(t, filepath.Join(folder, "models/staging/crm/stg_crm__leads.sql"))
	text, err := os.ReadFile(settings)
	require.NoError(t, err)
	require.Equal(t, "name: mine", string(text))
}

// TestAppendChildren: a child table of mode append has no staging model, because the model would also have the items of
// older versions of the parent.
func TestAppendChildren(t *testing.T) {
	t.Parallel()
	d := dictionary("duckdb")
	for g := range d.Groups {
		for i := range d.Groups[g].Tables {
			if t := &d.Groups[g].Tables[i]; strings.HasPrefix(t.Name, "sales_invoices") {
				t.Mode = "append"
			}
		}
	}
	files := projectOf(t, d)
	require.Contains(t, files, "models/staging/sales/stg_sales__invoices.sql")
	require.NotContains(t, files, "models/staging/sales/stg_sales__invoices__items.sql")
	require.NotContains(t, files["models/staging/sales/_sales__models.yml"], "stg_sales__invoices__items")
	require.Contains(t, files["models/staging/sales/_sales__sources.yml"], "- name: sales_invoices__items")
}

// TestOwnModule: a stream penstock.x of the user does not hide penstock's own tables.
func TestOwnModule(t *testing.T) {
	t.Parallel()
	d := dictionary("duckdb")
	x := render.TableDoc{Name: "penstock_x", Mode: "merge", Stream: "penstock.x", Selected: true, Key: []string{"id"}, Columns: []render.ColumnDoc{{Name: "id", Type: "int64", Key: true}}}
	x.Of.Module = "penstock"
	d.Add("penstock", x)
	made, err := Project(d)
	require.NoError(t, err)
	files := projectOf(t, d)
	require.Len(t, files, len(made), "each file is written once")
	require.Contains(t, files["models/staging/penstock/_penstock__sources.yml"], "_penstock_certificates")
	require.Contains(t, files["models/staging/penstock_streams/stg_penstock_streams__penstock_x.sql"], "source('penstock_streams', 'penstock_x')")
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	return out
}

func TestSQLType(t *testing.T) {
	t.Parallel()
	p := newProject(dictionary("postgres"), schemas.Relations{})
	for name, want := range map[string]string{
		"int64": "bigint", "decimal(16,2)": "numeric(16,2)", "list(list(bool))": "boolean[][]", "text": "text", "json": "jsonb", "timestamp": "timestamptz",
	} {
		require.Equal(t, want, p.staged(name))
	}
}
