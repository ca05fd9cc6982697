package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Flood is a burst of events about existing records.
type Flood struct {
	Rate     int      `json:"rate"`               // events per second; 0: as fast as they are delivered
	Count    int      `json:"count"`              // number of events; 0: Rate multiplied by For
	For      Duration `json:"for,omitempty"`      // duration, if Count is 0
	Match    string   `json:"match,omitempty"`    // glob of modules ("contact"); empty: all
	Subjects int      `json:"subjects,omitempty"` // maximum number of distinct records per module; 0: all
	Change   float64  `json:"change,omitempty"`   // share of the events whose record really changes
	Bytes    int      `json:"bytes,omitempty"`    // minimum body size of events whose record does not change
}

// FloodReport is the outcome of a flood.
type FloodReport struct {
	Events  int      `json:"events"`
	Changes int      `json:"changes"` // number of changed records
	Took    Duration `json:"took"`    // time until the last event was announced; deliveries may take longer
}

const maxBacklog = 50_000

const floodStep = 5 * time.Millisecond

// ParseFlood parses a flood on the command line: "rate=1700,for=1m,match=contact".
func ParseFlood(text string) (Flood, error) {
	var f Flood
	for _, word := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "rate":
			f.Rate, err = strconv.Atoi(value)
		case "count":
			f.Count, err = strconv.Atoi(value)
		case "for":
			err = f.For.UnmarshalText([]byte(value))
		case "match":
			f.Match = value
		case "subjects":
			f.Subjects, err = strconv.Atoi(value)
		case "change":
			f.Change, err = strconv.ParseFloat(value, 64)
		case "bytes":
			f.Bytes, err = strconv.Atoi(value)
		default:
			err = errors.New("no such setting")
		}
		if err != nil {
			return f, fmt.Errorf("parse flood %q: %s: %w", text, name, err)
		}
	}
	return f, f.check()
}

func (f *Flood) check() error {
	if f.Rate < 0 || f.Count < 0 || f.For < 0 || f.Subjects < 0 || f.Bytes < 0 || f.Bytes > maxBody || !(f.Change >= 0 && f.Change <= 1) {
		return errors.New("flood: want no negative numbers, a change share of 0 to 1, and bodies of at most 4 MiB")
	}
	if _, err := path.Match(f.Match, ""); err != nil {
		return fmt.Errorf("flood match %q: %w", f.Match, err)
	}
	f.Count = cmp.Or(f.Count, int(float64(f.Rate)*time.Duration(f.For).Seconds()))
	if f.Count == 0 {
		return errors.New("flood: set count, or both rate and for")
	}
	return nil
}

// Flood announces events until it has announced enough, or ctx ends. It does not wait for the deliveries: see Drain.
// The seed determines the records of the events.
func (s *Server) Flood(ctx context.Context, f Flood) (FloodReport, error) {
	if err := f.check(); err != nil {
		return FloodReport{}, err
	}
	speakers := f.tables(s)
	if len(speakers) == 0 {
		return FloodReport{}, fmt.Errorf("flood: no module with records matches %q", f.Match)
	}
	random := rand.New(rand.NewPCG(s.options.Seed, 17))
	var report FloodReport
	start := time.Now()
	tick := time.NewTicker(floodStep)
	defer tick.Stop()
	for report.Events < f.Count {
		due := f.Count
		if f.Rate > 0 {
			due = min(due, int(time.Since(start).Seconds()*float64(f.Rate))+1)
		}
		for room := maxBacklog - s.hub.backlog(); report.Events < due && room > 0; room-- {
			report.Events++
			if f.announce(s, random, speakers[random.IntN(len(speakers))]) {
				report.Changes++
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return report, context.Cause(ctx)
		}
	}
	report.Took = Duration(time.Since(start))
	return report, nil
}

func (f *Flood) tables(s *Server) []string {
	if s.contacts != nil {
		return []string{"contacts"}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.DeleteFunc(s.world.names(), func(name string) bool {
		a := s.announced[name]
		if a == nil || len(s.world.table(name).rows) == 0 {
			return true
		}
		ok, _ := path.Match(cmp.Or(f.Match, "*"), a.module)
		return !ok
	})
}

func (f *Flood) announce(s *Server, random *rand.Rand, table string) (changed bool) {
	which, change := random.Uint64(), random.Float64() < f.Change
	if s.contacts != nil {
		number := int(which % uint64(atMost(s.contacts.count, f.Subjects)))
		if change {
			s.contacts.change(number)
		}
		s.announceContact(number, f.Bytes)
		return change
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.world.table(table).rows
	if len(rows) == 0 { // all records were deleted meanwhile
		return false
	}
	row := rows[which%uint64(atMost(len(rows), f.Subjects))]
	mark := visibleChange(row)
	if change && mark != nil {
		s.world.alter(write{table: table}, update, row, mark) // alter also announces the change
		return true
	}
	s.hub.publish(s.announced[table].event(s.hub.id(), s.world, "updated", row, f.Bytes))
	return false
}

func atMost(n, limit int) int {
	if limit == 0 {
		return n
	}
	return min(n, limit)
}

func (s *Server) announceContact(number, size int) {
	if !s.hub.hasSubscribers() {
		return
	}
	row := obj("id", firstContact+number, "object", "contact", "name", "Contact "+strconv.Itoa(number))
	s.hub.publish(s.announced["contacts"].event(s.hub.id(), nil, "updated", row, size))
}

func (h *hub) backlog() int {
	most := 0
	for _, sub := range h.all() {
		most = max(most, sub.backlog())
	}
	return most
}
