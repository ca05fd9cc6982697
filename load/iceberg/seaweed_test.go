//go:build iceberg && unix

package iceberg

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/loadtest"
)

// seaweed is SeaweedFS: a store, an Iceberg catalog and a token endpoint in one program. The catalog accepts tables only
// in folders of the form <namespace>/<table>, and gives out keys that are valid only for such a folder.
type seaweed struct{ catalog, store string }

const (
	seaweedSecret = "do not tell" // the secret of bucketAt
	seaweedRole   = "arn:aws:iam::000000000000:role/tables"
)

// startSeaweed starts SeaweedFS with the table bucket lake: see .ci/servers. The settings are environment variables.
func startSeaweed(t testing.TB, settings ...string) seaweed {
	t.Helper()
	program, own := server(t, "bin/weed"), t.TempDir()
	ports := map[string]string{}
	args := []string{"mini", "-dir", own, "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-webdav=false", "-admin.ui=false", "-master.telemetry=false",
		"-s3.port.lance=0", "-s3.iceberg.credentialRole=" + seaweedRole, "-tableBucket=lake"}
	for _, name := range []string{"master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc", "s3.port.iceberg", "admin.port", "admin.port.grpc", "admin.port.legacy"} {
		ports[name] = freePort(t)
		args = append(args, "-"+name+"="+ports[name])
	}
	for name, config := range map[string]string{"s3.config": seaweedUsers, "s3.iam.config": seaweedRights} {
		path := filepath.Join(own, name+".json")
		require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
		args = append(args, "-"+name+"="+path)
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), settings...)
	s := seaweed{catalog: "http://127.0.0.1:" + ports["s3.port.iceberg"], store: "http://127.0.0.1:" + ports["s3.port"]}
	startServer(t, cmd, func() bool {
		b, err := openREST(t.Context(), s.options(t, "ready"))
		return err == nil && b.Close() == nil
	})
	return s
}

const seaweedUsers = `{"identities": [{"name": "penstock", "credentials": [{"accessKey": "key", "secretKey": "` + seaweedSecret + `"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}`

const seaweedRights = `{"sts": {"tokenDuration": "1h", "maxSessionLength": "12h", "issuer": "seaweedfs", "signingKey": "c2lnbmluZyBrZXkgb2YgdGhlIHRlc3Rz"},
	"roles": [{"roleName": "tables", "roleArn": "` + seaweedRole + `", "attachedPolicies": ["all"],
		"trustPolicy": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Federated": "iceberg-catalog"}, "Action": "sts:AssumeRoleWithCredentials"}]}}],
	"policies": [{"name": "all", "document": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}}]}`

func (s seaweed) options(t testing.TB, namespace string) Options {
	o := Options{Options: bucketAt(t, s.store), Catalog: s.catalog, Warehouse: "lake", Credential: "key:" + seaweedSecret, Namespace: namespace}
	o.Bucket = "s3://lake"
	return o
}

func (s seaweed) place(t testing.TB) Options {
	return s.options(t, fmt.Sprint("lake", restNumber.Add(1)))
}

// The catalog of another implementation, with OAuth2.
func TestSeaweed(t *testing.T) {
	s := startSeaweed(t)
	t.Run("conformance", func(t *testing.T) { seaweedConformance(t, s.place, nil) })
	t.Run("one table at a time", func(t *testing.T) {
		through := s
		through.catalog = forward(t, s.catalog, &faults{tableByTable: true})
		seaweedConformance(t, through.place, seaweedCases)
	})
	t.Run("keys from the catalog", func(t *testing.T) { seaweedConformance(t, vended(s.place), seaweedCases) })
	t.Run("names", func(t *testing.T) { internalNames(t, s.place) })
	t.Run("shared by sources", func(t *testing.T) { sharedPruning(t, s.place) })
}

// seaweedCases are the tests that also run with one table at a time and with keys from the catalog.
var seaweedCases = []string{"nulls", "columns are added", "unchanged rows stay", "composite key", "the key changes its type", "children follow their parent"}

func seaweedConformance(t *testing.T, at place, only []string) {
	d := driver(at)
	d.Skip = func(name string) bool {
		return only != nil && !slices.Contains(only, name) || skipInShort(name) || strings.HasPrefix(name, "hostile") // the catalog accepts only names of lower-case letters, digits and underscores
	}
	loadtest.Run(t, d)
}

// A process is killed at each step of a commit, several times. Invariants 1, 2
func TestSeaweedKilled(t *testing.T) {
	s := startSeaweed(t)
	t.Run("configured keys", func(t *testing.T) { sharedKilled(t, s.place) })
	t.Run("keys from the catalog", func(t *testing.T) { sharedKilled(t, vended(s.place)) })
}

// PENSTOCK_TEST_TRIALS is the number of kills. Invariants 1, 2, 7
func TestSeaweedBesideKills(t *testing.T) { readersBesideKills(t, startSeaweed(t).place) }

// The tokens are valid for 40 seconds. Penstock gets a new one before the old one expires, so the catalog never refuses
// one. The token endpoint has another address than the catalog.
func TestSeaweedTokens(t *testing.T) {
	s := startSeaweed(t, "ICEBERG_OAUTH_TOKEN_EXPIRY=40")
	var tokens, requests, refused atomic.Int64
	endpoint := watch(t, s.catalog, func(*http.Response) { tokens.Add(1) })
	s.catalog = watch(t, s.catalog, func(r *http.Response) {
		requests.Add(1)
		if r.StatusCode == http.StatusUnauthorized {
			refused.Add(1)
		}
		assert.NotContains(t, r.Request.URL.Path, "oauth")
	})
	o := s.place(t)
	o.TokenURL = endpoint + "/v1/oauth/tokens"
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	first := tokens.Load()
	require.Less(t, 10*first, requests.Load(), "a token is used again")
	time.Sleep(31 * time.Second) // less than ten seconds are left
	must(t, l, at, 2, 3)
	require.Greater(t, tokens.Load(), first)
	require.Zero(t, refused.Load())
	same(t, o, 2, "after a renewal")

	o.Credential = "key:another secret"
	_, err := Open(t.Context(), o)
	require.ErrorContains(t, err, "get a token: the server answered 401 Unauthorized invalid_client")
	require.ErrorContains(t, err, "\nhint: check credential")
	require.NotContains(t, err.Error(), "another secret")
	require.NotContains(t, err.Error(), seaweedSecret)
	o.Credential, o.Token = "", "no token"
	_, err = Open(t.Context(), o)
	require.ErrorContains(t, err, "the catalog answered 401 NotAuthorizedException")
	require.ErrorContains(t, err, "\nhint: check token")
}

// watch starts a proxy in front of a server. It calls a function with each answer.
func watch(t testing.TB, server string, each func(*http.Response)) string {
	t.Helper()
	to, err := url.Parse(server)
	require.NoError(t, err)
	behind := httputil.NewSingleHostReverseProxy(to)
	behind.ModifyResponse = func(r *http.Response) error {
		each(r)
		return nil
	}
	proxy := httptest.NewServer(behind)
	t.Cleanup(proxy.Close)
	return proxy.URL
}
