package extract

import (
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
)

// ChangedAt returns when a record, a JSON object, was last changed: the latest time in the given member and in members
// like updated_at. ok is false if none of them holds a time.
func ChangedAt(record []byte, field string) (at time.Time, ok bool) {
	ms, err := jsondoc.SplitObject(record)
	if err != nil {
		return time.Time{}, false
	}
	for _, m := range ms {
		if m.Name != field && !records.OfChange(m.Name) {
			continue
		}
		value := string(m.Value)
		if !jsondoc.IsScalar(m.Value) || value == "" || value == "null" {
			continue
		}
		t, is := records.Moment(value, records.UnitOfValue(value, true))
		if is && (!ok || t.After(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}
