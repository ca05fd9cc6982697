package extract

import "time"

// ChangedAt returns when a record, a JSON object, was last changed: the latest time in the member named field and in
// members like updated_at. ok is false if none of them holds a time.
func ChangedAt(record []byte, field string) (at time.Time, ok bool) {
	ms, err := attributes(record)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range ms {
		if m.name != field && !ofChange(m.name) {
			continue
		}
		value := string(m.value)
		if !plain(m.value) || value == "" || value == "null" {
			continue
		}
		t, is := moment(value, unitOfValue(value, true))
		if is && (!ok || t.After(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}
