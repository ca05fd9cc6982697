package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
)

// Schedule says when the daemon runs a pipeline.
type Schedule struct {
	At      Pos
	Cron    string
	Zone    *time.Location
	CatchUp string // which missed slots are run: once (only the newest), all or none

	Jitter   time.Duration // a run starts up to this long after its slot
	Deadline time.Duration // a run is stopped after this time; 0: never

	Slots schedule.Schedule // the slots of Cron in Zone
}

func readSchedule(v value) *Schedule {
	s := &Schedule{At: v.pos(), Zone: time.UTC, CatchUp: "once"}
	var cron, jitter value
	v.mapping(fields{
		"cron":     keep(&cron),
		"zone":     s.readZone,
		"catch_up": set(&s.CatchUp, catchUp),
		"jitter": func(v value) {
			jitter = v
			duration(&s.Jitter, 0, 24*time.Hour, "a duration up to 24h0m0s, such as 5m")(v)
		},
		"deadline": duration(&s.Deadline, time.Second, 30*24*time.Hour, "a duration up to 720h0m0s, such as 5m"),
	}, "cron")
	if !cron.given() || !s.readCron(cron) || s.Jitter == 0 {
		return s
	}
	if least := leastGap(s.Slots); s.Jitter >= least {
		text, _ := jitter.scalar()
		v.fault(text.at, "%s %q: want less than the %s between two runs", jitter.what, text.raw, least)
	}
	return s
}

// leastGap returns the shortest time between two slots. It looks only at the first 50 slots after 1970.
func leastGap(s schedule.Schedule) time.Duration {
	least := time.Duration(1<<63 - 1)
	next := s.Upcoming(time.Unix(0, 0), 50)
	for i := range next[:len(next)-1] {
		least = min(least, next[i+1].Sub(next[i]))
	}
	return least
}

func (s *Schedule) readZone(v value) {
	text, ok := v.text()
	if !ok {
		return
	}
	z, err := time.LoadLocation(text.value)
	if err != nil || z == time.Local {
		v.fault(text.at, "%s %q is unknown; want for example Europe/Berlin or UTC", v.what, text.raw)
		return
	}
	s.Zone = z
}

func catchUp(v value) string {
	if s, ok := v.resolve().(*ast.StringNode); ok && (s.Value == "skip" || s.Value == "never") {
		v.fault(v.pos(), "%s %q is unknown; did you mean %q?", v.what, s.Value, "none")
		return ""
	}
	return v.choice("once", "all", "none")
}

func (s *Schedule) readCron(v value) bool {
	text, ok := v.text()
	if !ok {
		return false
	}
	f := strings.Fields(text.value)
	fields := "1 field"
	if len(f) != 1 {
		fields = fmt.Sprintf("%d fields", len(f))
	}
	switch {
	case f[0][0] == '@' && !slices.Contains(schedule.Words(), f[0]):
		v.fault(text.at, "%s %q is unknown%s", v.what, text.raw, suggestion(f[0], schedule.Words()))
		return false
	case f[0][0] != '@' && len(f) != 5 && len(f) != 6 && !strings.Contains(f[0], "="):
		v.fault(text.at, "%s %q has %s; want five, or six with seconds first", v.what, text.raw, fields)
		return false
	}
	s.Cron = strings.Join(f, " ")
	var err error
	if s.Slots, err = schedule.Parse(s.Cron, s.Zone); err != nil {
		v.fault(text.at, "%s %q: %s", v.what, text.raw, err)
		return false
	}
	return true
}
