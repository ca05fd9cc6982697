package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnnouncementsMatchData(t *testing.T) {
	t.Parallel()
	w := newWorld(1, 1)
	modules := map[string]string{}
	for name, a := range announcements() {
		require.NotEmpty(t, w.tables[name], "table %s", name)
		require.Empty(t, modules[a.module], "module %s of %s", a.module, name)
		modules[a.module] = name
		told := map[string]bool{}
		for _, row := range w.table(name).rows {
			for _, m := range a.shows.show(w, row) {
				told[m.name] = told[m.name] || m.value != nil && m.value != ""
			}
		}
		for member, something := range told {
			require.True(t, something, "%s.%s is never set", name, member)
		}
	}
}
