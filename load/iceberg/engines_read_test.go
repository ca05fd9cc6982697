//go:build iceberg && unix

package iceberg

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

// serversPath returns the path of a file that .ci/servers fetches, or "" if it was not fetched.
func serversPath(name string) string {
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); dir == "" || err != nil {
		return ""
	}
	return path
}

// pythonReader reads one line per table: the names of its catalog and of the table. It prints the rows as JSON. Polars reads
// with its own reader, not with that of PyIceberg.
const pythonReader = `
import datetime, decimal, json, os, sys
from pyiceberg.catalog import load_catalog

def text(v):
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, datetime.datetime):
        assert v.tzinfo, "a time without a zone: %r" % v
        return v.astimezone(datetime.timezone.utc).strftime("%4Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(v, list):
        return json.dumps(v, ensure_ascii=False)
    if isinstance(v, decimal.Decimal):
        return format(v, "f")
    return str(v)

def read(engine, table):
    if engine == "PyIceberg":
        return table.scan().to_arrow()
    if engine == "Polars":
        import polars
        return polars.scan_iceberg(table, reader_override="native").collect().to_arrow()
    if engine == "Daft":
        import daft
        return daft.read_iceberg(table).to_arrow()
    import duckdb, duckdb_extension_avro, duckdb_extension_iceberg
    db = duckdb.connect() # a new database, so that no table is cached
    db.execute("SET enable_progress_bar = false")
    for package, name in (duckdb_extension_avro, "avro"), (duckdb_extension_iceberg, "iceberg"):
        db.execute("LOAD '%s/extensions/v%s/%s.duckdb_extension'" % (os.path.dirname(package.__file__), duckdb.__version__, name))
    return db.execute("SELECT * FROM iceberg_scan(?)", [table.metadata_location]).to_arrow_table()

engine = sys.argv[1]
catalogs = dict(zip(sys.argv[2::2], [json.loads(text) for text in sys.argv[3::2]]))
for line in sys.stdin:
    catalog, name = line.split()
    rows = read(engine, load_catalog(catalog, **catalogs[catalog]).load_table(name)).to_pylist()
    print(json.dumps([{k: text(v) for k, v in r.items() if v is not None} for r in rows]), flush=True)
`

func inPython(name string) startEngine {
	return func(t *testing.T, places []Options) (reads []engine) {
		python := serversPath("readers/bin/python")
		if python == "" {
			t.Skip("no readers: run make readers")
		}
		args := []string{"-c", pythonReader, name}
		for _, o := range places {
			args = append(args, o.Name, pythonProperties(t, o))
		}
		problem := &bytes.Buffer{}
		cmd := exec.CommandContext(t.Context(), python, args...)
		cmd.Stderr = problem
		in, out := startPiped(t, cmd)
		answers := json.NewDecoder(out)
		for _, o := range places {
			reads = append(reads, func(t *testing.T, table schemas.Table) (rows []loadtest.Row) {
				t.Helper()
				_, err := fmt.Fprintln(in, o.Name, qualified(o, table.Name, "%s.%s"))
				require.NoError(t, err)
				if err := answers.Decode(&rows); err != nil {
					_ = in.Close()
					t.Fatal(table.Name, err, cmd.Wait(), problem.String())
				}
				return rows
			})
		}
		return reads
	}
}

// pythonProperties returns the properties, as JSON, with which PyIceberg opens the catalog.
func pythonProperties(t *testing.T, o Options) string {
	properties := map[string]string{"type": "sql", "uri": "sqlite:///" + filepath.Join(o.Path, catalogFile), "init_catalog_tables": "false"}
	if o.Catalog != "" {
		properties = map[string]string{"type": "rest", "uri": o.Catalog}
	}
	if o.Bucket != "" {
		properties["s3.endpoint"], properties["s3.region"], properties["s3.force-virtual-addressing"] = o.Store.Endpoint, o.Store.Region, "false"
		properties["s3.access-key-id"], properties["s3.secret-access-key"] = o.Store.AccessKey, o.Store.SecretKey
	}
	if o.Credential != "" {
		properties["warehouse"], properties["credential"] = o.Warehouse, o.Credential
	}
	text, err := json.Marshal(properties)
	require.NoError(t, err)
	return string(text)
}

// qualified returns the name of a table with its namespace, in the form of an engine.
func qualified(o Options, table, form string) string {
	namespace, name := o.namespaces().identifier(table)
	return fmt.Sprintf(form, namespace, name)
}

func namespaceOf(o Options) string {
	if o.Namespace == "" {
		return defaultNamespace
	}
	return o.Namespace
}

func inSpark(t *testing.T, places []Options) (reads []engine) {
	var settings []string
	for _, o := range places {
		name := "spark.sql.catalog." + o.Name
		settings = append(settings, name+"=org.apache.iceberg.spark.SparkCatalog", name+".cache-enabled=false")
		if o.Catalog != "" {
			settings = append(settings, name+".type=rest", name+".uri="+o.Catalog)
			continue
		}
		for _, setting := range jdbc(o) {
			settings = append(settings, strings.Replace(setting, "spark.sql.catalog.penstock", name, 1))
		}
	}
	s := startSpark(t, settings...)
	for _, o := range places {
		reads = append(reads, func(t *testing.T, table schemas.Table) []loadtest.Row {
			t.Helper()
			return s.read(t, table, o.Name+qualified(o, table.Name, ".%s.`%s`"))
		})
	}
	return reads
}

func (s *spark) read(t *testing.T, table schemas.Table, name string) []loadtest.Row {
	t.Helper()
	var columns []string
	for _, f := range table.Columns.Fields() {
		if f.Name == schemas.ColOrdinal { // used only while rows are written
			continue
		}
		as := "CAST(`%s` AS STRING)"
		switch f.Type.(type) {
		case *arrow.TimestampType:
			as = "date_format(`%s`, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'\")"
		case *arrow.ListType:
			as = "to_json(`%s`)"
		}
		columns = append(columns, fmt.Sprintf("'%s', "+as, f.Name, f.Name))
	}
	rows := s.sql(t, fmt.Sprintf("SELECT to_json(named_struct(%s)) FROM %s", strings.Join(columns, ", "), name))
	out := make([]loadtest.Row, len(rows))
	for i, r := range rows {
		require.NoError(t, json.Unmarshal([]byte(r[0]), &out[i]))
	}
	return out
}

// inTrino starts Trino. Each place is a catalog. Most of the code that Trino runs in this test, it runs only once, so a
// fast compiler and a simple garbage collector take less time.
func inTrino(t *testing.T, places []Options) (reads []engine) {
	home := serversPath("trino")
	if home == "" {
		t.Skip("no Trino: run make readers with Java 24 or later")
	}
	dir, port := t.TempDir(), freePort(t)
	url := "http://127.0.0.1:" + port
	files := map[string][]string{"config.properties": {
		"coordinator=true", "node-scheduler.include-coordinator=true", "http-server.http.port=" + port, "discovery.uri=" + url,
		"query.max-memory=200MB", "query.max-memory-per-node=200MB", "memory.heap-headroom-per-node=100MB",
	}}
	for _, o := range places {
		files["catalog/"+o.Name+".properties"] = trinoProperties(o)
	}
	for name, lines := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")), 0o644))
	}
	startServer(t, exec.Command(filepath.Join(home, "java"), "-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Duser.timezone=UTC", "-Dnode.environment=test", "-Dnode.id=one", "-Dnode.internal-address=127.0.0.1", "-Dnode.bind-ip=127.0.0.1",
		"-Dnode.data-dir="+dir, "-Dconfig="+filepath.Join(dir, "config.properties"), "-Dcatalog.config-dir="+filepath.Join(dir, "catalog"), "-Dplugin.dir="+filepath.Join(home, "plugin"),
		"-Djdk.attach.allowAttachSelf=true", "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED", "-cp", filepath.Join(home, "lib")+"/*", "io.trino.server.TrinoServer"),
		func() bool { // without a node, Trino refuses queries
			info := struct{ Starting bool }{true}
			if resp, err := http.Get(url + "/v1/info"); err == nil {
				_ = errors.Join(json.NewDecoder(resp.Body).Decode(&info), resp.Body.Close())
			}
			if info.Starting { // a refused query would slow down the start
				return false
			}
			rows, err := trinoRows(t.Context(), url, "SELECT node_id FROM system.runtime.nodes WHERE state = 'active'")
			return err == nil && len(rows) == 1
		})
	for _, o := range places {
		reads = append(reads, func(t *testing.T, table schemas.Table) []loadtest.Row {
			t.Helper()
			rows, err := trinoRows(t.Context(), url, "SELECT * FROM "+o.Name+qualified(o, table.Name, `."%s"."%s"`))
			require.NoError(t, err)
			return rows
		})
	}
	return reads
}

func trinoProperties(o Options) []string {
	properties := []string{"connector.name=iceberg", "fs.native-local.enabled=true", "local.location=/"}
	if o.Catalog != "" {
		return append(properties, "iceberg.catalog.type=rest", "iceberg.rest-catalog.uri="+o.Catalog)
	}
	return append(properties, "iceberg.catalog.type=jdbc", "iceberg.jdbc-catalog.catalog-name="+o.Name, "iceberg.jdbc-catalog.schema-version=V0",
		"iceberg.jdbc-catalog.driver-class=org.sqlite.JDBC", "iceberg.jdbc-catalog.connection-url=jdbc:sqlite:"+filepath.Join(o.Path, catalogFile),
		"iceberg.jdbc-catalog.default-warehouse-dir=file://"+o.Path)
}

// trinoRows runs a query. An answer of Trino has some rows and the address of the next answer.
func trinoRows(ctx context.Context, url, query string) (rows []loadtest.Row, err error) {
	method, next, body := http.MethodPost, url+"/v1/statement", io.Reader(strings.NewReader(query))
	for next != "" {
		r, err := http.NewRequestWithContext(ctx, method, next, body)
		if err != nil {
			return nil, err
		}
		r.Header.Set("X-Trino-User", "penstock")
		r.Header.Set("X-Trino-Client-Capabilities", "PARAMETRIC_DATETIME") // times with all six digits
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		var answer struct {
			NextURI string
			Columns []struct{ Name, Type string }
			Data    [][]any
			Error   struct{ Message string }
		}
		d := json.NewDecoder(resp.Body)
		d.UseNumber()
		err = errors.Join(d.Decode(&answer), resp.Body.Close())
		if err != nil || answer.Error.Message != "" || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("run %q in Trino: %s: %w", query, resp.Status, errors.Join(err, errors.New(answer.Error.Message)))
		}
		for _, values := range answer.Data {
			row := loadtest.Row{}
			for i, v := range values {
				if v == nil {
					continue
				}
				if row[answer.Columns[i].Name], err = trinoText(v, answer.Columns[i].Type); err != nil {
					return nil, err
				}
			}
			rows = append(rows, row)
		}
		method, next, body = http.MethodGet, answer.NextURI, nil
	}
	return rows, nil
}

func trinoText(v any, kind string) (string, error) {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v), nil
	case json.Number:
		return v.String(), nil
	case string:
		if kind != "timestamp(6) with time zone" {
			return v, nil
		}
		at, err := time.Parse("2006-01-02 15:04:05.000000 UTC", v)
		return at.Format("2006-01-02T15:04:05.000000Z"), err
	}
	text, err := json.Marshal(v)
	return string(text), err
}
