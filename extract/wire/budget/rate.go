package budget

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is a limit as a server states it: at most Limit requests in any period of length Window. The zero value means
// that the limit is unknown.
type Rate struct {
	Limit  int
	Window time.Duration
}

// ParseRate parses a rate like "100/s", "60/m", "1000/h" or "20/10s". For "", it returns the zero Rate.
func ParseRate(s string) (Rate, error) {
	if strings.TrimSpace(s) == "" {
		return Rate{}, nil
	}
	count, unit, ok := strings.Cut(s, "/")
	n, err := strconv.Atoi(strings.ReplaceAll(strings.TrimSpace(count), ",", ""))
	if !ok || err != nil || n < 1 || n > 1_000_000 {
		return Rate{}, fmt.Errorf("rate %q: want a count and a unit, as in 100/s", s)
	}
	w, err := parseUnit(strings.TrimSpace(unit))
	if err != nil {
		return Rate{}, fmt.Errorf("rate %q: %w", s, err)
	}
	return Rate{Limit: n, Window: w}, nil
}

func parseUnit(unit string) (time.Duration, error) {
	switch unit {
	case "s", "sec", "second":
		return time.Second, nil
	case "m", "min", "minute":
		return time.Minute, nil
	case "h", "hour":
		return time.Hour, nil
	}
	d, err := time.ParseDuration(unit)
	if err != nil || d < time.Second || d > 24*time.Hour {
		return 0, fmt.Errorf("unit %q is not s, m, h or a duration from a second to a day", unit)
	}
	return d, nil
}

// String returns the rate in the form that [ParseRate] reads, or "" for the zero value.
func (r Rate) String() string {
	switch r.Window {
	case 0:
		return ""
	case time.Second:
		return fmt.Sprintf("%d/s", r.Limit)
	case time.Minute:
		return fmt.Sprintf("%d/m", r.Limit)
	case time.Hour:
		return fmt.Sprintf("%d/h", r.Limit)
	}
	return fmt.Sprintf("%d/%s", r.Limit, r.Window)
}
