// Package schedule computes when a pipeline is due. It accepts cron expressions with five or six fields, @every,
// and descriptors such as @daily. A due time is called a slot. The package uses only the parser of the cron
// library: the library's own loop omits or repeats slots when the clock changes. Start with [Parse].
//
// In spring the clock skips an hour. A time of day in that hour is due once, right after the change. In autumn an
// hour occurs twice. A schedule that fires in every hour, or more than once in an hour, is due both times. Any
// other schedule is due only the first time. Slots do not depend on when a process started: the slots of @every
// count from 1970.
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

// Schedule is an endless series of slots. It may be copied. The zero Schedule has no slots.
type Schedule struct {
	text    string
	zone    *time.Location
	spec    *cron.SpecSchedule // the cron expression; times of day in zone are passed to it as if they were UTC
	every   time.Duration      // the period of @every; spec is then nil
	repeats bool               // a time of day that occurs twice is due both times
}

var errNever = errors.New("never fires: no date matches")

// Words returns the descriptors that Parse accepts, such as @daily.
func Words() []string {
	return []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@every"}
}

// Parse parses a cron expression. Times of day are in zone.
func Parse(text string, zone *time.Location) (Schedule, error) {
	s := Schedule{text: text, zone: zone}
	if strings.HasPrefix(text, "TZ=") || strings.HasPrefix(text, "CRON_TZ=") {
		return s, errors.New("set the time zone with the key `zone`, not in the cron expression")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	parsed, err := parser.Parse(text)
	if err != nil {
		return s, err
	}
	switch p := parsed.(type) {
	case *cron.SpecSchedule:
		p.Location = time.UTC
		s.spec, s.repeats = p, frequent(p)
	case cron.ConstantDelaySchedule:
		if s.every = p.Delay; !wholeEvery(text, p.Delay) {
			return s, errors.New("@every needs whole seconds, at least one, for example 15m")
		}
	default:
		return s, fmt.Errorf("unknown kind of schedule %T", p)
	}
	if s.Next(time.Unix(0, 0)).IsZero() {
		return s, errNever
	}
	return s, nil
}

// wholeEvery reports whether the cron library has kept the period of @every. The library silently turns 0s into
// one second.
func wholeEvery(text string, got time.Duration) bool {
	d, err := time.ParseDuration(strings.TrimSpace(strings.TrimPrefix(text, "@every")))
	return err == nil && d == got
}

// frequent() reports whether a schedule fires in every hour, or more than once in an hour. Its slots in an hour
// that occurs twice are due both times.
func frequent(s *cron.SpecSchedule) bool {
	const all = 1<<24 - 1
	return s.Hour&all == all || bits.OnesCount64(s.Minute&(1<<60-1)) > 1 || bits.OnesCount64(s.Second&(1<<60-1)) > 1
}

// String returns the schedule as written, and its zone unless that is UTC.
func (s Schedule) String() string {
	if s.zone == nil {
		return ""
	}
	if s.every > 0 || s.zone == time.UTC {
		return s.text
	}
	return s.text + " " + s.zone.String()
}

// Zone returns the time zone of the schedule.
func (s Schedule) Zone() *time.Location { return s.zone }

// Next returns the first slot after t, in the schedule's zone, or the zero time if there is none.
func (s Schedule) Next(t time.Time) time.Time {
	switch {
	case s.every > 0:
		step := int64(s.every / time.Second)
		at := t.Unix()
		return time.Unix(at-((at%step)+step)%step+step, 0).In(s.zone)
	case s.spec == nil:
		return time.Time{}
	}
	t = time.Unix(t.Unix(), 0).In(s.zone)
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

// mostSpans is more than the number of clock changes between two slots. There are at most 8 years between two
// slots: from one 29 February to the next around a year such as 2100. In each year there are at most four
// changes, in zones that suspend daylight saving during Ramadan.
const mostSpans = 64

// Upcoming returns the next n slots after t.
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

type span struct {
	start, end time.Time // end is exclusive; zero: no end
	shift      time.Duration
	before     time.Duration
}

func spanAt(t time.Time) span {
	sp := span{shift: shiftAt(t)}
	sp.start, sp.end = t.ZoneBounds()
	sp.before = sp.shift
	if !sp.start.IsZero() {
		sp.before = shiftAt(sp.start.Add(-time.Second))
	}
	return sp
}

func shiftAt(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}

func (s Schedule) in(sp span, t time.Time) time.Time {
	change := sp.shift - sp.before
	if change > 0 && t.Before(sp.start) {
		// All slots in the skipped time, and a slot right at the end of that time, count as one slot.
		if skipped := s.wall(sp.start, sp.before, -time.Second); !skipped.IsZero() && !skipped.After(wallOf(sp.start, sp.shift)) {
			return sp.start
		}
	}
	if change < 0 && !s.repeats {
		// Skip the second occurrence of the hour.
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

// wall returns the schedule's first time of day that is later than the time of day at t plus the parameter offset.
func (s Schedule) wall(t time.Time, shift, offset time.Duration) time.Time {
	w := wallOf(t, shift).Add(offset)
	for range 3 { // the cron library looks five years ahead, and the next 29 February may be eight years away
		if at := s.spec.Next(w); !at.IsZero() {
			return at
		}
		w = w.AddDate(5, 0, 0)
	}
	return time.Time{}
}

// wallOf returns the time of day at t, as if it were UTC.
func wallOf(t time.Time, shift time.Duration) time.Time { return t.UTC().Add(shift) }

// Jitter returns the delay between a slot and its run. The delay is shorter than limit. It keeps pipelines with the
// same schedule from starting at the same time. The same name and slot always give the same delay, so a restart
// neither repeats a run nor moves it.
func Jitter(name string, slot time.Time, limit time.Duration) time.Duration {
	if limit < time.Second {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", name, slot.Unix())
	return time.Duration(h.Sum64()%uint64(limit/time.Second)) * time.Second
}
