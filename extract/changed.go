package extract

import (
	"strings"
	"time"
)

// ChangedAt is when a record, a JSON object, was last changed by its own account:
// the latest moment of its members that are named for it (updated_at, modified),
// and of field, where it is not "". ok is false where it does not say.
func ChangedAt(record []byte, field string) (at time.Time, ok bool) {
	ms, err := attributes(record)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range ms {
		name := strings.ToLower(m.name)
		if m.name != field && !strings.Contains(name, "updat") && !strings.Contains(name, "modif") && !strings.Contains(name, "chang") {
			continue
		}
		value := string(m.value)
		if !plain(m.value) || value == "" || value == "null" {
			continue
		}
		t, told := moment(value, unitOfValue(value, true))
		if told && (!ok || t.After(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}
