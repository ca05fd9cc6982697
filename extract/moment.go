package extract

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// skew is the largest difference between two texts for the same moment if they do not state their time zones.
const skew = 26 * time.Hour

// earliest() returns the earliest time that a record can state for a change at the given time.
func earliest(at time.Time, format string) time.Time {
	at = at.UTC()
	if zoneless(format) {
		at = at.Add(-westOfUTC)
	}
	return at.Truncate(stepOf(format))
}

func momentAt(d *jsondoc.Doc, v jsondoc.Value, format string) (time.Time, bool) {
	if !v.OK() {
		return time.Time{}, false
	}
	return parseMoment(bound{value: d.Raw(v)}.text(), format)
}

var layouts = map[string]string{
	schemas.MomentRFC3339:  time.RFC3339Nano,
	schemas.MomentDateTime: "2006-01-02 15:04:05",
	schemas.MomentDate:     time.DateOnly,
}

func parseMoment(text, format string) (time.Time, bool) {
	switch format {
	case schemas.MomentUnix, schemas.MomentUnixMS:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, false
		}
		if format == schemas.MomentUnix {
			return time.Unix(n, 0).UTC(), true
		}
		return time.UnixMilli(n).UTC(), true
	}
	at, err := time.Parse(layouts[format], text)
	return at.UTC(), err == nil
}

// momentJSON truncates a time to the precision of the format. It never rounds up.
func momentJSON(at time.Time, format string) []byte {
	switch format {
	case schemas.MomentUnix:
		return strconv.AppendInt(nil, at.Unix(), 10)
	case schemas.MomentUnixMS:
		return strconv.AppendInt(nil, at.UnixMilli(), 10)
	case schemas.MomentRFC3339:
		at = at.Truncate(time.Second)
	}
	text, _ := json.Marshal(at.UTC().Format(layouts[format]))
	return text
}

func stepOf(format string) time.Duration {
	switch format {
	case schemas.MomentDate:
		return 24 * time.Hour
	case schemas.MomentUnixMS:
		return time.Millisecond
	}
	return time.Second
}

// slack returns how long before the start of the wanted range a request must start: one step of the time format,
// because the server may exclude the bound. If times have no zone, slack returns skew.
func slack(format string) time.Duration {
	if zoneless(format) {
		return skew
	}
	return stepOf(format)
}

func zoneless(format string) bool {
	return format == schemas.MomentDate || format == schemas.MomentDateTime
}

const westOfUTC = 12 * time.Hour
