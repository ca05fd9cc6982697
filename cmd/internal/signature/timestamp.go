package signature

import (
	"strconv"
	"time"
)

func (t *Timestamp) read(text string) (time.Time, bool) {
	if t.Unit == ISO8601 {
		at, err := time.Parse(time.RFC3339, text)
		return at, err == nil
	}
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return time.Time{}, false
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	if t.Unit == Milliseconds {
		return time.UnixMilli(n), true
	}
	// Larger values become the first second of the year 10000: time.Time cannot compare much larger values.
	if n > 253402300799 {
		n = 253402300800
	}
	return time.Unix(n, 0), true
}

func (t *Timestamp) judge(now time.Time, text string) (time.Time, Reason) {
	at, ok := t.read(text)
	switch {
	case !ok || at.Before(now.Add(-t.Past)):
		return time.Time{}, Old
	case at.After(now.Add(t.Future)):
		return time.Time{}, Early
	}
	return at, ""
}
