package state

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type model struct {
	kept   []Event
	bodies map[string][]string // by source and id, in order of arrival
	last   int64
}

func (m *model) append(e Event) Appended {
	was, key := Stored, e.Source+"/"+e.ID
	if e.ID != "" {
		before := m.bodies[key]
		switch {
		case slices.Contains(before, string(e.Body)):
			return Duplicate
		case len(before) > 0:
			was, e.Conflict = Conflicting, true
			for i := range m.kept {
				if k := &m.kept[i]; k.Source == e.Source && k.ID == e.ID && string(k.Body) == before[0] {
					k.Conflict = true
				}
			}
		}
		m.bodies[key] = append(before, string(e.Body))
	}
	m.last++
	e.Ordinal = m.last
	m.kept = append(m.kept, e)
	return was
}

func memoryFolder(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "penstock-inbox-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestInboxModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir := memoryFolder(t)
		b, err := OpenInbox(t.Context(), dir, InboxOptions{})
		require.NoError(rt, err)
		defer func() { require.NoError(rt, b.Close()) }()
		m := &model{bodies: map[string][]string{}}
		sources := rapid.SampledFrom([]string{"main", "other"})
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				e := Event{
					Source: sources.Draw(rt, "source"), ID: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(rt, "id"),
					Body: []byte(rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "body")), Received: event(0).Received,
				}
				was, err := b.Append(t.Context(), e)
				require.NoError(rt, err)
				require.Equal(rt, m.append(e), was)
			},
			"trim": func(rt *rapid.T) {
				source, through := sources.Draw(rt, "source"), rapid.Int64Range(0, m.last).Draw(rt, "through")
				require.NoError(rt, b.Trim(t.Context(), source, through))
				m.kept = slices.DeleteFunc(m.kept, func(e Event) bool { return e.Source == source && e.Ordinal <= through })
			},
			"reopen": func(rt *rapid.T) {
				require.NoError(rt, b.Close())
				b, err = OpenInbox(t.Context(), dir, InboxOptions{})
				require.NoError(rt, err)
			},
			"": func(rt *rapid.T) {
				for _, source := range []string{"main", "other"} {
					var want []string
					for _, e := range m.kept {
						if e.Source == source {
							want = append(want, brief(e))
						}
					}
					es, err := b.Events(t.Context(), source, 0, 1e6)
					require.NoError(rt, err)
					var got []string
					for _, e := range es {
						got = append(got, brief(e))
					}
					require.Equal(rt, want, got)
				}
			},
		})
	})
}

func brief(e Event) string {
	return fmt.Sprint(e.Ordinal, " ", e.Source, " ", e.ID, " ", string(e.Body), " ", e.Conflict)
}

// Queries that run while events arrive use an index, so their cost does not grow with the inbox.
func TestInboxQueriesUseIndexes(t *testing.T) {
	b := openInbox(t, t.TempDir(), InboxOptions{})
	appended(t, b, event(1))
	for _, query := range []string{
		findID, findIDs,
		"SELECT name, id, digest, ordinal FROM events JOIN sources USING (source) WHERE ordinal > ? AND id <> x'' AND conflict <> ? ORDER BY ordinal",
		readEvents + "WHERE name = ? AND ordinal > ? AND reason IS NULL ORDER BY ordinal LIMIT ?",
		readEvents + "WHERE name = ? AND ordinal > ? AND reason IS NOT NULL ORDER BY ordinal LIMIT ?",
		readEvents + "WHERE ordinal = ?",
		"SELECT count(*) FROM events WHERE source = ? AND reason IS NOT NULL",
		"SELECT received FROM events WHERE source = ? AND reason IS NULL ORDER BY ordinal LIMIT 1",
		"DELETE FROM events WHERE source = ? AND ordinal <= ? AND reason IS NULL",
		"DELETE FROM ids WHERE key BETWEEN ? AND ? AND day < ?",
	} {
		args := make([]any, strings.Count(query, "?"))
		for i := range args {
			args[i] = 0
		}
		err := forEachQuery(t.Context(), b.file.read, func(scan func(...any) error) error {
			var id, parent, unused int
			var detail string
			err := scan(&id, &parent, &unused, &detail)
			for _, table := range []string{"events", "ids"} {
				require.NotEqual(t, "SCAN "+table, detail, query)
			}
			require.NotContains(t, detail, "TEMP B-TREE", query)
			return err
		}, "EXPLAIN QUERY PLAN "+query, args...)
		require.NoError(t, err)
	}
}
