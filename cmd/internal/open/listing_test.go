//go:build unix

package open

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

func TestJSONRowsReadsToTheEnd(t *testing.T) {
	for text, want := range map[string]int{
		`[{"name":"a"},{"name":"b"}]`: 2, "{\"name\":\"a\"}\n{\"name\":\"b\"}\n": 2, "[]": 0, " [ {\"name\":\"a\"} ]\n": 1,
	} {
		rows, err := jsonRows([]byte(text))
		require.NoError(t, err, text)
		require.Len(t, rows, want, text)
	}
	for _, text := range []string{
		`[{"name":"a"},`, `[{"name":"a"}`, `[`, `[{"name":"a"}]]`, `[{"name":"a"}] rubbish`, "{\"name\":\"a\"}\n}\n", "]", "{\"name\":\"a\"}\nsk_secret", `{"name":"a`, `[1]`,
	} {
		_, err := jsonRows([]byte(text))
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "sk_secret")
	}
}

// TestYAMLRowsAreText: values of a list are stored as they are written, for example 007.
func TestYAMLRowsAreText(t *testing.T) {
	rows, err := yamlRows([]byte("- {name: 007, key: 0123, float: 1e3, yes: yes, null: ~, list: [1], quoted: \"0x1F\"}\n- name: 0x10\n  key: |\n    line\n"))
	require.NoError(t, err)
	require.Equal(t, map[string]string{"name": "007", "key": "0123", "float": "1e3", "yes": "yes", "quoted": "0x1F"}, rows[0].Fields)
	require.Equal(t, map[string]string{"name": "0x10", "key": "line\n"}, rows[1].Fields)
	rows, err = yamlRows([]byte("- {name: &a 07}\n- {name: *a}\n"))
	require.NoError(t, err)
	require.Equal(t, "07", rows[0].Fields["name"])
	require.Equal(t, "07", rows[1].Fields["name"])
	for _, text := range []string{"name: x\n", "- sk_secret\n"} {
		_, err := yamlRows([]byte(text))
		require.Error(t, err, text)
		require.NotContains(t, err.Error(), "sk_secret")
	}
}

// TestWithoutValues: an error contains nothing that may be a value of a row.
func TestWithoutValues(t *testing.T) {
	query := `SELECT name, CAST(key AS integer) FROM workspaces WHERE plan = 'pro'`
	for text, want := range map[string]string{
		`invalid input syntax for type integer: "sk_live_x" (SQLSTATE 22P02)`: "invalid input syntax for type integer: [redacted]",
		"Conversion Error: Could not convert string 'it''s sk_live' to INT":   "Conversion Error: Could not convert string [redacted]",
		`value 4711 is out of range`:                                          "value [redacted]",
		`column "key" does not exist`:                                         `column "key" does not exist`,
		`relation "workspaces" does not exist at 'pro'`:                       `relation "workspaces" does not exist at 'pro'`,
		`an empty "" and then sk`:                                             "an empty [redacted]",
		"syntax error":                                                        "syntax error",
	} {
		require.Equal(t, want, withoutValues(text, query))
	}
}

// TestListingCommandEnds: if penstock is stopped, a command that hangs is killed with its child processes.
func TestListingCommandEnds(t *testing.T) {
	child, pid := filepath.Join(t.TempDir(), "child"), 0
	ctx, cancel := context.WithCancelCause(t.Context())
	begun := make(chan bool, 1)
	go func() {
		begun <- assert.Eventually(t, func() bool {
			text, _ := os.ReadFile(child)
			n, err := strconv.Atoi(strings.TrimSpace(string(text)))
			pid = n
			return err == nil
		}, time.Minute, 5*time.Millisecond)
		cancel(&failure.Stopped{Signal: syscall.SIGTERM})
	}()
	_, err := listedBy(ctx, []string{"/bin/sh", "-c", "sleep 600 & echo $! > " + child + "; wait"})
	require.True(t, <-begun)
	require.ErrorContains(t, err, "stopped by terminated")
	require.Eventually(t, func() bool { return gone(pid) }, time.Minute, 5*time.Millisecond, "the child of the command still runs")
	_, err = listedBy(t.Context(), []string{"/bin/sh", "-c", ":"})
	require.ErrorContains(t, err, "printed nothing")
}

// gone reports whether the process does not exist or is a zombie.
func gone(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(stat), ") Z ")
}
