package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fillState(t *testing.T) (dir string, b *InboxFile) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "state")
	b, err := OpenInbox(t.Context(), dir, InboxOptions{})
	require.NoError(t, err)
	_, _, err = MaskKey(filepath.Join(dir, "mask.key"))
	require.NoError(t, err)
	require.NoError(t, WriteNote(filepath.Join(dir, "alerts.json"), []byte(`{}`)))
	require.NoError(t, WriteNote(filepath.Join(dir, "tokens", "main.json"), []byte(`{"token":"t"}`)))
	require.NoError(t, WriteNote(filepath.Join(dir, "budget", "x"), []byte("of the moment")))
	l, err := Acquire(t.Context(), filepath.Join(dir, "nightly.lock"), 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Release() })
	return dir, b
}

// The test stores events while it makes copies. Each copy must have all events that were acknowledged before the copy
// began, and the events in a copy must have no gaps between them.
func TestBackupOfAnInboxInUse(t *testing.T) {
	dir, b := fillState(t)
	var stored sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	var mu sync.Mutex
	acknowledged := 0
	stored.Go(func() {
		for i := 1; ctx.Err() == nil; i++ {
			_, err := b.Append(ctx, Event{Source: "main", ID: strconv.Itoa(i), Received: time.Now(), Body: fmt.Appendf(nil, `{"n":%d}`, i)})
			if err == nil {
				mu.Lock()
				acknowledged = i
				mu.Unlock()
			}
		}
	})
	for n := range 3 {
		mu.Lock()
		before := acknowledged
		mu.Unlock()
		to := filepath.Join(t.TempDir(), "backup")
		_, err := MakeBackup(t.Context(), dir, to)
		require.NoError(t, err)
		restored := filepath.Join(t.TempDir(), "restored")
		_, err = RestoreBackup(to, restored)
		require.NoError(t, err)
		c, err := OpenInbox(t.Context(), restored, InboxOptions{})
		require.NoError(t, err, "copy %d", n)
		events, err := c.Events(t.Context(), "main", 0, 1_000_000)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(events), before)
		for i, e := range events {
			require.Equal(t, strconv.Itoa(i+1), e.ID)
		}
		require.NoError(t, c.Close())
	}
	stop()
	stored.Wait()
	require.NoError(t, b.Close())
	require.Positive(t, acknowledged)
}

func TestBackupDuringWrite(t *testing.T) {
	dir, b := fillState(t)
	defer b.Close()
	tx, err := b.file.write.BeginTx(t.Context(), nil) // blocks all other writers
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = MakeBackup(t.Context(), dir, filepath.Join(t.TempDir(), "backup"))
	require.NoError(t, err)
	r, err := readSQLite(t.Context(), b.file.path, inboxSchema)
	require.NoError(t, err)
	require.NoError(t, r.Close())
}

func TestBackupFiles(t *testing.T) {
	dir, b := fillState(t)
	defer b.Close()
	to := filepath.Join(t.TempDir(), "backup")
	made, err := MakeBackup(t.Context(), dir, to)
	require.NoError(t, err)
	var names []string
	for _, f := range made.Files {
		names = append(names, f.Name)
		info, err := os.Stat(filepath.Join(to, f.Name))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), f.Name)
	}
	require.Equal(t, []string{"alerts.json", "inbox.db", "mask.key", "tokens/main.json"}, names)
	checked, err := CheckBackup(to)
	require.NoError(t, err)
	require.Equal(t, made, checked)

	_, err = MakeBackup(t.Context(), dir, to)
	require.ErrorIs(t, err, ErrOccupied)
	_, err = RestoreBackup(to, dir)
	require.ErrorIs(t, err, ErrOccupied, "a state folder in use is not overwritten")
}

func TestBackupDamaged(t *testing.T) {
	dir, b := fillState(t)
	defer b.Close()
	to := filepath.Join(t.TempDir(), "backup")
	made, err := MakeBackup(t.Context(), dir, to)
	require.NoError(t, err)
	restored := filepath.Join(t.TempDir(), "restored")
	for _, name := range append([]string{manifestName}, made.Files[0].Name, made.Files[1].Name, made.Files[2].Name, made.Files[3].Name) {
		path := filepath.Join(to, name)
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		broken := append([]byte(nil), was...)
		broken[len(broken)/2] ^= 1
		if name == manifestName {
			broken = was[:len(was)/2]
		}
		require.NoError(t, os.WriteFile(path, broken, 0o600))
		_, err = RestoreBackup(to, restored)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.NoError(t, os.Remove(path))
		_, err = RestoreBackup(to, restored)
		require.ErrorIs(t, err, ErrDamaged, name)
		require.NoDirExists(t, restored)
		require.NoError(t, os.WriteFile(path, was, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(to, manifestName), []byte(`{"files":[{"name":"../../etc/passwd"}]}`), 0o600))
	_, err = RestoreBackup(to, restored)
	require.ErrorIs(t, err, ErrDamaged)
}
