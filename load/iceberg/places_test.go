//go:build iceberg && unix

package iceberg

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

func bucket(t testing.TB) parquet.Options {
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("lake"))
	s := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(s.Close)
	return bucketAt(t, s.URL)
}

func bucketAt(t testing.TB, endpoint string) parquet.Options {
	return parquet.Options{
		Bucket: "s3://lake/warehouse", TempDir: t.TempDir(),
		Store: objects.Options{Endpoint: endpoint, Region: "us-east-1", Path: true, AccessKey: "key", SecretKey: "do not tell"},
	}
}

func TestBucket(t *testing.T) {
	for name, catalog := range map[string]func(testing.TB) string{
		"sqlite":   func(t testing.TB) string { return "sqlite:" + t.TempDir() + "/catalog.db" },
		"postgres": postgresCatalog,
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Options: bucket(t), Catalog: catalog(t), Namespace: "crm"}
			one, other := open(t, o), open(t, o)
			at := must(t, one, "", 1, 3)
			_, err := put(t.Context(), other, "", 2, 3)
			require.ErrorIs(t, err, state.ErrMoved)
			at = must(t, other, at, 2, 4)
			_, err = put(t.Context(), one, "at 1", 3, 4)
			require.ErrorIs(t, err, state.ErrMoved)
			for _, l := range []*parquet.Lake{one, other} {
				now, err := l.Cursor(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, at, now)
				tables, err := l.Tables(t.Context(), "leads")
				require.NoError(t, err)
				require.Len(t, tables, 2)
			}
			path, err := one.Path(t.Context(), "leads")
			require.NoError(t, err)
			require.Regexp(t, `^s3://lake/warehouse/crm/leads/metadata/00000002-[0-9a-f-]{36}.metadata.json$`, path)
		})
	}
}

// Commits are durable even if the server's default for synchronous_commit is off. // Invariant 2
func TestDurable(t *testing.T) {
	server := pgtest.Start(t, "synchronous_commit=off")
	o := warehouse(t)
	o.Catalog, o.Namespace = server.URL(), "crm"
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	server.Exec(`CREATE FUNCTION durable() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF current_setting('synchronous_commit') = 'off' THEN RAISE 'it would not be durable'; END IF;
		RETURN NEW; END $$;
		CREATE TRIGGER durable BEFORE INSERT OR UPDATE ON iceberg_tables FOR EACH ROW EXECUTE FUNCTION durable()`)
	must(t, l, at, 2, 4)
}

func TestNamespaces(t *testing.T) {
	catalog := "sqlite:" + t.TempDir() + "/catalog.db"
	for _, name := range []string{"one", "other"} {
		o := warehouse(t)
		o.Catalog, o.Namespace = catalog, name
		l := open(t, o)
		now, err := l.Cursor(t.Context(), key)
		require.NoError(t, err)
		require.Empty(t, now)
		must(t, l, "", 1, 3)
	}
}

func TestWarehouses(t *testing.T) {
	_, err := Open(t.Context(), Options{Options: parquet.Options{Path: t.TempDir() + "/50%"}})
	require.ErrorContains(t, err, "the path contains %, # or ?")
	_, err = Open(t.Context(), Options{Options: parquet.Options{Bucket: "s3://lake/x"}})
	require.ErrorContains(t, err, "needs a catalog")
	_, err = Open(t.Context(), Options{Options: parquet.Options{Path: t.TempDir()}, Catalog: "postgres://user:secret@host:port/x"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret") // Invariant 5
}

func postgresCatalog(t testing.TB) string {
	return pgtest.Start(t).URL()
}

// Trino and StarRocks remove each file below a table that is in no snapshot, so the manifests must not be there.
// Invariant 1
func TestManifestsOutsideOfTables(t *testing.T) {
	o := Options{Options: bucket(t), Catalog: "sqlite:" + t.TempDir() + "/catalog.db"}
	must(t, open(t, o), "", 1, 3)
	require.Equal(t, []string{"penstock_penstock/crm.leads"}, manifestFolders(t, o))
}
