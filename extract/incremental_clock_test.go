package extract

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// The clock of this machine does not decide when a whole pass is due: another machine may have run the previous pass.
func TestWholePassBySharedClock(t *testing.T) {
	s := list("crm.leads", "id")
	s.Incremental = schemas.Incremental{Field: "updated_at", Param: "since", Format: schemas.MomentRFC3339}
	var since []string
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		since = append(since, r.URL.Query().Get("since"))
		fmt.Fprintf(w, `{"data":[{"id":1,"updated_at":%q}],"total":1}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	}, s)
	now := time.Now().Add(-5 * time.Hour)
	f.cfg.Now = func() time.Time { return now }
	first, err := read(f.Client, s, "")
	require.NoError(t, err)
	last := func() string { return since[len(since)-1] }
	require.Empty(t, last())
	from := first.cursors[len(first.cursors)-1]
	for _, tt := range []struct {
		after time.Duration
		whole bool
	}{{time.Minute, false}, {s.Incremental.Every() - time.Minute, false}, {s.Incremental.Every(), true}} {
		f.cfg.Now = func() time.Time { return now.Add(tt.after) }
		_, err = read(f.Client, s, from)
		require.NoError(t, err)
		require.Equal(t, tt.whole, last() == "", "%s after", tt.after)
	}
}
