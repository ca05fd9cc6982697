//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/parquet/objects"
)

// server returns a program of .ci/servers, or skips the test if the program is missing.
func server(t testing.TB, program string) string {
	t.Helper()
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	path := filepath.Join(dir, program)
	if _, err := os.Stat(path); dir == "" || err != nil {
		t.Skipf("%s is missing: run make catalogs", program)
	}
	return path
}

// responds reports whether a server is ready. A server may be ready and require a token.
func responds(url string) bool {
	resp, err := http.Get(url)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err == nil && (resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnauthorized)
}

// startReferenceIn starts the reference implementation with tables in a bucket.
func startReferenceIn(t testing.TB, store string, settings ...string) string {
	keys := bucketAt(t, store).Store
	return startReference(t, append([]string{
		"CATALOG_WAREHOUSE=s3://lake/warehouse", "CATALOG_IO__IMPL=org.apache.iceberg.aws.s3.S3FileIO", "CATALOG_S3_ENDPOINT=" + store, "CATALOG_S3_PATH__STYLE__ACCESS=true",
		"CATALOG_S3_ACCESS__KEY__ID=" + keys.AccessKey, "CATALOG_S3_SECRET__ACCESS__KEY=" + keys.SecretKey, "CATALOG_CLIENT_REGION=us-east-1", "AWS_REGION=us-east-1",
		"AWS_REQUEST_CHECKSUM_CALCULATION=when_required", // the store of the test does not understand trailing checksums
	}, settings...)...)
}

var restNumber atomic.Int64

// inREST returns a place in a folder. The catalog is the server at the address.
func inREST(_ testing.TB, catalog string) place {
	return func(t testing.TB) Options {
		o := warehouse(t)
		o.Catalog, o.Namespace = catalog, fmt.Sprint("lake", restNumber.Add(1))
		return o
	}
}

// inRESTBucket is like inREST, for tables in the bucket lake of a store.
func inRESTBucket(_ testing.TB, catalog, store string) place {
	return func(t testing.TB) Options {
		n := restNumber.Add(1)
		o := Options{Options: bucketAt(t, store), Catalog: catalog, Namespace: fmt.Sprint("lake", n)}
		o.Bucket += fmt.Sprint("/", n)
		return o
	}
}

// vended returns a place like another one, but the catalog gives out the keys.
func vended(at place) place {
	return func(t testing.TB) Options {
		o := at(t)
		o.Vended, o.Store.AccessKey, o.Store.SecretKey = true, "", ""
		return o
	}
}

// storeOf opens the bucket of a place with the keys of the test.
func storeOf(t testing.TB, o Options) (objects.Bucket, string) {
	t.Helper()
	keys := bucketAt(t, o.Store.Endpoint).Store
	store, at, err := objects.Open(o.Bucket, keys)
	require.NoError(t, err)
	return store, strings.Trim(at.Path, "/") + "/"
}
