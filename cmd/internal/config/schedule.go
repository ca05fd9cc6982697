package config

import (
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
)

// Schedule is when the daemon runs a pipeline.
type Schedule struct {
	At      Pos
	Cron    string
	Zone    *time.Location
	CatchUp string // which missed slots are run: once (the newest), all or none

	Jitter   time.Duration // a run starts up to this long after its slot
	Deadline time.Duration // a run is stopped after this time; 0: never

	Slots schedule.Schedule // Cron in Zone
}

// Longer and shorter times are probably typing errors.
const (
	mostJitter    = 24 * time.Hour
	leastDeadline = time.Second
	mostDeadline  = 30 * 24 * time.Hour
)

func (r *reader) schedule(n ast.Node, what string) *Schedule {
	s := &Schedule{At: posOf(n), Zone: time.UTC, CatchUp: "once"}
	var cron, jitter scalar
	ok := r.mapping(n, what, fields{
		"cron":     func(n ast.Node) { cron, _ = r.text(n, what+" cron") },
		"zone":     func(n ast.Node) { r.zone(n, what+" zone", s) },
		"catch_up": func(n ast.Node) { s.CatchUp = r.catchUp(n, what+" catch_up") },
		"jitter":   func(n ast.Node) { jitter, s.Jitter = r.span(n, what+" jitter", 0, mostJitter) },
		"deadline": func(n ast.Node) { _, s.Deadline = r.span(n, what+" deadline", leastDeadline, mostDeadline) },
	})
	if ok {
		r.require(n, what, "cron")
	}
	if cron.value == "" || !r.cron(s, cron, what+" cron") {
		return s
	}
	if least := leastGap(s.Slots); s.Jitter > 0 && s.Jitter >= least {
		r.fault(jitter.at, "%s jitter %q: want less than the %s between two runs", what, jitter.raw, least)
	}
	return s
}

// leastGap returns the shortest time between two slots, among the first 50 slots after 1970.
func leastGap(s schedule.Schedule) time.Duration {
	least := time.Duration(1<<63 - 1)
	next := s.Upcoming(time.Unix(0, 0), 50)
	for i := range next[:len(next)-1] {
		least = min(least, next[i+1].Sub(next[i]))
	}
	return least
}

func (r *reader) zone(n ast.Node, what string, s *Schedule) {
	v, ok := r.text(n, what)
	if !ok {
		return
	}
	z, err := time.LoadLocation(v.value)
	if err != nil || z == time.Local {
		r.fault(v.at, "%s %q is unknown; want for example Europe/Berlin or UTC", what, v.raw)
		return
	}
	s.Zone = z
}

func (r *reader) catchUp(n ast.Node, what string) string {
	if s, ok := r.resolve(n).(*ast.StringNode); ok && (s.Value == "skip" || s.Value == "never") {
		r.fault(posOf(n), "%s %q is unknown; did you mean %q?", what, s.Value, "none")
		return ""
	}
	return r.choice(n, what, "once", "all", "none")
}

func (r *reader) span(n ast.Node, what string, least, most time.Duration) (scalar, time.Duration) {
	s, ok := r.text(n, what)
	if !ok {
		return s, 0
	}
	d, err := time.ParseDuration(strings.TrimSpace(s.value))
	if err != nil || d < least || d > most {
		r.fault(s.at, "%s %q: want a duration up to %s, such as 5m", what, s.raw, most)
		return s, 0
	}
	return s, d
}

func (r *reader) cron(s *Schedule, text scalar, what string) bool {
	f := strings.Fields(text.value)
	switch {
	case f[0][0] == '@' && !slices.Contains(schedule.Words(), f[0]):
		r.fault(text.at, "%s %q is unknown%s", what, text.raw, suggestion(f[0], schedule.Words()))
		return false
	case f[0][0] != '@' && len(f) != 5 && len(f) != 6 && !strings.Contains(f[0], "="):
		r.fault(text.at, "%s %q has %d fields; want five, or six with seconds first", what, text.raw, len(f))
		return false
	}
	s.Cron = strings.Join(f, " ")
	var err error
	if s.Slots, err = schedule.Parse(s.Cron, s.Zone); err != nil {
		r.fault(text.at, "%s %q: %s", what, text.raw, err)
		return false
	}
	return true
}
