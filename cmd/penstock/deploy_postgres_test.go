//go:build unix

package main

import (
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

// TestComposeRole runs the script that creates penstock's role in Postgres. The role must have all rights that a load
// needs, and no right that `check` warns about.
func TestComposeRole(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("needs psql")
	}
	server := pgtest.Start(t)
	server.Exec("CREATE ROLE admin SUPERUSER LOGIN")
	server.Exec("CREATE DATABASE warehouse OWNER admin")
	t.Cleanup(func() {
		server.Exec("DROP DATABASE warehouse WITH (FORCE)")
		server.Exec("DROP ROLE composed, composed_readers, admin")
	})
	secret := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(secret, []byte(`it's "a" \password`), 0o600))
	script := strings.NewReplacer("/run/secrets/postgres_password", secret, "penstock", "composed").Replace(deployed(t, "postgres-role.sh"))
	host, port, err := net.SplitHostPort(server.Address())
	require.NoError(t, err)
	cmd := exec.Command("sh", "-c", script)
	cmd.Env = []string{"PATH=" + filepath.Dir(psql) + ":" + os.Getenv("PATH"), "PGHOST=" + host, "PGPORT=" + port, "POSTGRES_USER=admin", "POSTGRES_DB=warehouse"}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	at, err := url.Parse(server.As("composed", `it's "a" \password`))
	require.NoError(t, err)
	at.Path = "/warehouse"
	d, err := postgres.Open(t.Context(), postgres.Options{URL: at.String(), Schema: "platform"})
	require.NoError(t, err)
	defer d.Close()
	require.Equal(t, "t", server.Text("SELECT rolpassword LIKE 'SCRAM-SHA-256$%' FROM pg_authid WHERE rolname = 'composed'"))
	require.NoError(t, d.Check(t.Context()))
	warnings, err := d.Warnings(t.Context())
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.NoError(t, d.View(t.Context(), "one", "SELECT 1 AS one"), "the role creates its own tables")
	text, err := firstText(strings.Replace(server.URL(), "/postgres?", "/warehouse?", 1), "SELECT has_table_privilege('composed_readers', 'platform.one', 'SELECT')")
	require.NoError(t, err)
	require.Equal(t, "t", text)
}
