package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fault makes the sandbox fail.
type Fault struct {
	Match       string   `json:"match"`                 // glob of stream names ("crm.*"), path templates or "METHOD /path"; empty: all
	Kind        string   `json:"kind"`                  // see the Fault constants
	Status      int      `json:"status,omitempty"`      // if Kind is status: the HTTP status; default 500
	RetryAfter  string   `json:"retry_after,omitempty"` // if Kind is status: the Retry-After header, unchanged
	Count       int      `json:"count,omitempty"`       // how many requests fail; 0: all
	Probability float64  `json:"probability,omitempty"` // probability that a request fails; 0 means 1
	After       int      `json:"after,omitempty"`       // how many requests succeed first
	Page        int      `json:"page,omitempty"`        // the only page number that fails; 0: all pages
	Delay       Duration `json:"delay,omitempty"`       // if Kind is slow: the pause before each part of the body
	Bytes       int      `json:"bytes,omitempty"`       // if Kind is truncate: bytes that arrive; if Kind is gzip_bomb: unpacked size
	Location    string   `json:"location,omitempty"`    // if Kind is redirect: the Location header
	Delete      bool     `json:"delete,omitempty"`      // if Kind is drift: true removes rows, false adds rows
	ID          string   `json:"id,omitempty"`          // if Kind is poison: the record's id; default: the record in the middle
	Field       string   `json:"field,omitempty"`       // if Kind is field: the member's name
	As          string   `json:"as,omitempty"`          // if Kind is field: a new name
	Value       string   `json:"value,omitempty"`       // if Kind is field: a new value, as JSON
}

// The kinds of faults.
const (
	FaultStatus    = "status"     // answers Status, with RetryAfter if given
	FaultSlow      = "slow"       // the body arrives slowly
	FaultTruncate  = "truncate"   // the body ends before its Content-Length
	FaultCut       = "cut"        // the body ends early, and Content-Length matches the shorter body
	FaultReset     = "reset"      // the connection is reset before an answer
	FaultLost      = "lost"       // like reset, but the request takes effect
	FaultHTML      = "html"       // 200 and a login page
	FaultEmpty     = "empty"      // 200 and an empty list
	FaultMalformed = "malformed"  // 200 and invalid JSON
	FaultGzipBomb  = "gzip_bomb"  // a small body that unpacks to a large body
	FaultDrift     = "drift"      // rows are added or removed while a list is read
	FaultShuffle   = "shuffle"    // rows with equal sort values change places
	FaultStuck     = "stuck"      // page numbers and cursors are ignored: every page is the first page
	FaultModuleOff = "module_off" // the module is not part of the plan
	FaultRedirect  = "redirect"   // 302 to Location
	FaultPoison    = "poison"     // answers Status for every page that contains the record ID
	FaultStale     = "stale"      // single records are shown as they were before their last change
	FaultField     = "field"      // a member of the objects is renamed, changed or removed
)

// Duration is a time.Duration with a JSON form like "250ms".
type Duration time.Duration

// MarshalText returns the duration in the form of time.Duration.String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText parses the form of MarshalText.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// ParseFault parses a fault on the command line: "crm.*=status,status=503,count=3".
func ParseFault(text string) (Fault, error) {
	head, rest, _ := strings.Cut(text, ",")
	match, kind, ok := strings.Cut(head, "=")
	if !ok {
		return Fault{}, fmt.Errorf("parse fault %q: want MATCH=KIND[,NAME=VALUE]…", text)
	}
	f := Fault{Match: match, Kind: kind}
	if rest != "" {
		for _, word := range strings.Split(rest, ",") {
			name, value, _ := strings.Cut(word, "=")
			if err := f.set(name, value); err != nil {
				return Fault{}, fmt.Errorf("parse fault %q: %s: %w", text, name, err)
			}
		}
	}
	return f, f.check()
}

func (f *Fault) set(name, value string) (err error) {
	switch name {
	case "status":
		f.Status, err = strconv.Atoi(value)
	case "retry_after":
		f.RetryAfter = value
	case "count":
		f.Count, err = strconv.Atoi(value)
	case "probability":
		f.Probability, err = strconv.ParseFloat(value, 64)
	case "after":
		f.After, err = strconv.Atoi(value)
	case "page":
		f.Page, err = strconv.Atoi(value)
	case "delay":
		err = f.Delay.UnmarshalText([]byte(value))
	case "bytes":
		f.Bytes, err = strconv.Atoi(value)
	case "location":
		f.Location = value
	case "field":
		f.Field = value
	case "as":
		f.As = value
	case "value":
		f.Value = value
	case "delete":
		f.Delete, err = strconv.ParseBool(value)
	case "id":
		f.ID = value
	default:
		return errors.New("no such setting")
	}
	return err
}

func (f *Fault) check() error {
	switch f.Kind {
	case FaultStatus, FaultSlow, FaultTruncate, FaultCut, FaultReset, FaultLost, FaultHTML, FaultEmpty, FaultMalformed, FaultGzipBomb,
		FaultDrift, FaultShuffle, FaultStuck, FaultModuleOff, FaultRedirect, FaultPoison, FaultStale:
	case FaultField:
		if f.Field == "" || f.Value != "" && !json.Valid([]byte(f.Value)) {
			return errors.New("fault field: want a field, and a value that is JSON")
		}
	default:
		return fmt.Errorf("unknown fault %q", f.Kind)
	}
	if _, err := path.Match(f.Match, ""); err != nil {
		return fmt.Errorf("fault match %q: %w", f.Match, err)
	}
	return nil
}

type faults struct {
	mu     sync.Mutex
	rules  []*rule
	random *rand.Rand
}

type rule struct {
	Fault
	seen, applied int
}

func newFaults(seed uint64) *faults {
	return &faults{random: rand.New(rand.NewPCG(seed, 7))}
}

// SetFaults replaces all faults.
func (s *Server) SetFaults(list ...Fault) error {
	rules := make([]*rule, len(list))
	for i := range list {
		if err := list[i].check(); err != nil {
			return err
		}
		rules[i] = &rule{Fault: list[i]}
	}
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rules = rules
	return nil
}

func (f *faults) match(t target, page string) (Fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if !r.matches(t) || (r.Page > 0 && strconv.Itoa(r.Page) != page) {
			continue
		}
		r.seen++
		if r.seen <= r.After || (r.Count > 0 && r.applied >= r.Count) {
			continue
		}
		if r.Probability > 0 && f.random.Float64() >= r.Probability {
			continue
		}
		r.applied++
		return r.Fault, true
	}
	return Fault{}, false
}

func (r *rule) matches(t target) bool {
	if r.Match == "" || r.Match == "*" {
		return true
	}
	for _, name := range []string{t.stream, t.template, t.method + " " + t.template} {
		if ok, _ := path.Match(r.Match, name); ok && name != "" {
			return true
		}
	}
	return false
}
