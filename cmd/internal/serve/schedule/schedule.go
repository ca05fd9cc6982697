// Package schedule says at which instants a pipeline is due. It reads what cron
// reads (five fields or six, @every and the words that begin with @) and
// computes the instants, called slots, itself: cron's own loop leaves out or
// repeats what falls on a change of the clock. Begin with [Parse].
//
// A time of day that the clock skips is due once, right after the gap. One that
// comes twice is due the first time alone, if the schedule names its hours and
// fires once in each; else both times. Slots do not depend on when a process
// started: those of @every are counted from 1970.
package schedule

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/bits"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is a set of instants without end. It is a value: the zero Schedule
// has none.
type Schedule struct {
	text  string
	zone  *time.Location
	spec  *cron.SpecSchedule // on the wall clock of zone, as if that were UTC
	every time.Duration      // instead of spec
	both  bool               // a time of day that comes twice is due twice
}

// errNever says that no date is like this.
var errNever = errors.New("never fires; there is no such date")

// Words are the schedules that have a name.
func Words() []string {
	return []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every"}
}

// Parse reads a schedule in the words of cron; times of day are those of zone.
func Parse(text string, zone *time.Location) (Schedule, error) {
	s := Schedule{text: text, zone: zone}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return s, errors.New("zone is a key of its own beside cron")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(text)
	if err != nil {
		return s, err
	}
	switch p := parsed.(type) {
	case *cron.SpecSchedule:
		p.Location = time.UTC
		s.spec, s.both = p, frequent(p)
	case cron.ConstantDelaySchedule:
		if s.every = p.Delay; !wholeEvery(text, p.Delay) {
			return s, errors.New("want whole seconds after @every, a second or more, such as 15m")
		}
	default:
		return s, fmt.Errorf("a schedule of an unknown kind %T", p)
	}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return s, errNever
	}
	return s, nil
}

// wholeEvery reports whether cron has taken the duration as it is written: it
// makes 0s one second without a word.
func wholeEvery(text string, got time.Duration) bool {
	d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(text, "@every")))
	return err == nil && d == got
}

// frequent reports whether a schedule fires in every hour, or more than once in
// one: then the hour that comes twice has slots twice.
func frequent(s *cron.SpecSchedule) bool {
	const all = 1<<24 - 1
	return s.Hour&all == all || bits.OnesCount64(s.Minute&(1<<60-1)) > 1 || bits.OnesCount64(s.Second&(1<<60-1)) > 1
}

// String is the schedule as it was written, with its zone.
func (s Schedule) String() string {
	if s.zone == nil {
		return ""
	}
	if s.every > 0 || s.zone == time.UTC {
		return s.text
	}
	return s.text + " " + s.zone.String()
}

// Zone is where its times of day are told.
func (s Schedule) Zone() *time.Location { return s.zone }

// Next is the first slot after t, in the schedule's zone; the zero time where
// there is none.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.every > 0:
		step := int64(s.every / time.Second)
		at := t.Unix()
		return time.Unix(at-((at%step)+step)%step+step, 0).In(s.zone)
	case s.spec == nil:
		return time.Time{}
	}
	t = time.Unix(t.Unix(), 0).In(s.zone) // slots are whole seconds
	for range mostSpans {
		span := spanAt(t.Add(time.Second))
		if at := s.in(span, t); !at.IsZero() {
			return at
		}
		if span.end.IsZero() {
			break
		}
		t = span.end.Add(-time.Second)
	}
	return time.Time{}
}

// mostSpans is more changes of the clock than there can be between two slots:
// two a year, or four where a month of fasting suspends them, over the 8 years
// from one 29 February to the next across a century.
const mostSpans = 64

// Upcoming are the next n slots after t.
func (s Schedule) Upcoming(t time.Time, n int) []time.Time {
	var all []time.Time
	for range n {
		if t = s.Next(t); t.IsZero() {
			break
		}
		all = append(all, t)
	}
	return all
}

// span is a stretch of time in which a zone's clock is not changed.
type span struct {
	start, end time.Time // end is after it; zero: without
	shift      time.Duration
	before     time.Duration // shift of the span before
}

// spanAt is the span that t is in.
func spanAt(t time.Time) span {
	sp := span{shift: shiftAt(t)}
	sp.start, sp.end = t.ZoneBounds()
	sp.before = sp.shift
	if !sp.start.IsZero() {
		sp.before = shiftAt(sp.start.Add(-time.Second))
	}
	return sp
}

// shiftAt is how far a zone's clock is ahead of UTC.
func shiftAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

// in is the first slot of a span after t, if it has one.
func (s Schedule) in(sp span, t time.Time) time.Time {
	change := sp.shift - sp.before
	if change > 0 && t.Before(sp.start) {
		// What the gap has swallowed, and what is due as it ends, is one slot.
		if skipped := s.wall(sp.start, sp.before, -time.Second); !skipped.IsZero() && !skipped.After(wallOf(sp.start, sp.shift)) {
			return sp.start
		}
	}
	if change < 0 && !s.both {
		// The clock shows again what it has shown before.
		if again := sp.start.Add(-change - time.Second); t.Before(again) {
			t = again
		}
	}
	at := s.wall(t, sp.shift, 0)
	if at.IsZero() {
		return at
	}
	if at = at.Add(-sp.shift); !sp.end.IsZero() && !at.Before(sp.end) {
		return time.Time{}
	}
	return at.In(s.zone)
}

// wall is the first time of day that the schedule names after the one at t.
func (s Schedule) wall(t time.Time, shift, back time.Duration) time.Time {
	w := wallOf(t, shift).Add(back)
	for range 3 { // cron looks five years ahead; 29 February can be eight away
		if at := s.spec.Next(w); !at.IsZero() {
			return at
		}
		w = w.AddDate(5, 0, 0)
	}
	return time.Time{}
}

// wallOf is what a clock with this shift shows at t, as if that were UTC.
func wallOf(t time.Time, shift time.Duration) time.Time { return t.UTC().Add(shift) }

// Jitter is how long after a slot its run starts, so that many pipelines at one
// time of day do not ask at once. It is below most, and always the same for the
// same name and slot: a restart does not start a run twice or move it.
func Jitter(name string, slot time.Time, most time.Duration) time.Duration {
	if most < time.Second {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, slot.Unix())
	return time.Duration(h.Sum64()%uint64(most/time.Second)) * time.Second
}
