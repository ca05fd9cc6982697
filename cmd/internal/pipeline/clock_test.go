package pipeline

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func TestTimesByTheSharedClock(t *testing.T) {
	for _, apart := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		l := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.mode(schemas.History)
		r.config.Now = func() time.Time { return time.Now().Round(0).Add(apart) }
		begun := r.config.Now().Truncate(time.Microsecond)
		rep := r.must(StatusComplete)
		require.WithinRange(t, rep.Started, begun, r.config.Now())
		require.WithinRange(t, rep.Ended, rep.Started, r.config.Now())
		require.WithinRange(t, runid.Time(rep.Run), begun, r.config.Now())
		l.Records = sourcetest.Records(1, 3)
		l.Records[0].Name = "changed"
		r.must(StatusComplete)
		require.Len(t, r.memory.Rows("crm_leads"), 4)
		for table, columns := range map[string]string{
			"crm_leads": "_penstock_synced_at _penstock_valid_from _penstock_valid_to _penstock_deleted_at", load.Runs.Name: "started_at ended_at", load.Certificates.Name: "at",
		} {
			for _, row := range r.memory.Rows(table) {
				for c := range strings.FieldsSeq(columns) {
					if text, ok := row[c]; ok {
						at, err := time.Parse(time.RFC3339Nano, text)
						require.NoError(t, err)
						require.WithinRange(t, at, begun, r.config.Now(), "%s of %s", c, table)
					}
				}
			}
		}
		l.Fail = func(int) error {
			return &wire.Error{Class: wire.Throttled, NotBefore: time.Now().Add(10 * time.Minute)}
		}
		rep = r.must(StatusPartial)
		require.WithinDuration(t, r.config.Now().Add(10*time.Minute), rep.Streams[0].NotBefore, time.Minute)
	}
}
