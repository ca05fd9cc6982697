package extract

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ChangedAt uses the member that the caller names, but not other dates, such as the date of an exchange rate.
func TestChangedAt(t *testing.T) {
	record := []byte(`{"id":1,"updated_at":"2026-03-01T10:00:00Z","exchange_date":"2027-01-01","seen":"2026-04-01T10:00:00Z"}`)
	at, ok := ChangedAt(record, "")
	require.True(t, ok)
	require.Equal(t, time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), at)
	at, ok = ChangedAt(record, "seen")
	require.True(t, ok)
	require.Equal(t, time.Date(2026, 4, 1, 10, 0, 0, 0, time.UTC), at)
	_, ok = ChangedAt([]byte(`{"id":1,"exchange_date":"2027-01-01"}`), "")
	require.False(t, ok)
}
