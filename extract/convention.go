package extract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// Provenance says who has stated a fact about an endpoint, and with that how
// much it weighs.
type Provenance string

// The provenances, the weightiest first. A stated fact outranks a learned one
// and is checked all the same.
const (
	Configured Provenance = "configured" // pipelines.yaml
	Imported   Provenance = "imported"   // a published description
	Learned    Provenance = "learned"    // probes have tried to refute it and could not
	Catalogued Provenance = "catalogue"  // hint that came with the program
)

// The facts a convention is made of.
const (
	FactSuccess  = "success"   // how an envelope tells success from failure
	FactRecords  = "records"   // where the records stand
	FactKey      = "key"       // which fields tell two records apart
	FactPager    = "pager"     // how the list goes on
	FactPageSize = "page_size" // which parameter sets the size of a page, and its cap
	FactSort     = "sort"      // in which order records come, and what makes it stable
	FactFilter   = "filter"    // which parameter leaves out what has not changed
	FactUnits    = "units"     // of times and amounts, by column
	FactVolatile = "volatile"  // which fields differ whenever they are read
)

// Fact is one thing that is held about an endpoint, and why.
type Fact struct {
	About    string     `json:"about"` // one of the Fact constants
	Value    string     `json:"value"` // for people; "" where nothing could be established
	From     Provenance `json:"from"`
	Evidence []string   `json:"evidence,omitempty"` // what was asked and seen, one sentence a probe
	Refuted  []string   `json:"refuted,omitempty"`  // the hypotheses that were given up, and what against
}

// Convention is what is known about how one endpoint answers, with the evidence.
// It is remembered in the destinations, so that each endpoint is probed once. The
// zero value knows nothing. A Convention is a value; nobody changes one that was
// handed out.
type Convention struct {
	Of        string    `json:"of"` // fingerprint of the request it is about: see [Convention.Fits]
	LearnedAt time.Time `json:"learned_at"`
	Requests  int       `json:"requests"` // probes it took, retries included

	Open       bool               `json:"open,omitempty"`     // there was nothing to learn from: worth another look
	Thorough   bool               `json:"thorough,omitempty"` // orders and filters were looked for as well
	Located    bool               `json:"located,omitempty"`  // Records is known; "" is the body itself
	Records    string             `json:"records,omitempty"`  // JSON pointer, * for each element or value
	Context    string             `json:"context,omitempty"`  // what records are told their container as
	Key        []string           `json:"key,omitempty"`
	Pagination schemas.Pagination `json:"pagination"`
	Shape      string             `json:"shape,omitempty"` // outline of the envelope; another one is a reason to look anew

	Order  *Order            `json:"order,omitempty"`  // in which the list comes by itself
	Filter *Filter           `json:"filter,omitempty"` // nil where none has proven itself
	Units  map[string]string `json:"units,omitempty"`  // by top-level field: see the Unit constants

	Volatile []string `json:"volatile,omitempty"` // top-level fields that differ whenever they are read

	// Waiting says that the list seems to have an order or a filter by the time of
	// change, and that no record tells it from one by creation yet.
	Waiting bool `json:"waiting,omitempty"`

	Dropped     []string   `json:"dropped,omitempty"`      // hypotheses that the source has refuted: see the Hypothesis constants
	RefutedKeys [][]string `json:"refuted_keys,omitempty"` // keys that two different records had

	Facts []Fact `json:"facts"`
}

// Order is the order in which a list comes by itself, as far as the probes saw.
type Order struct {
	Field    string `json:"field"`               // top-level field of the records
	Desc     bool   `json:"desc"`                // the largest or newest first
	ByChange bool   `json:"by_change,omitempty"` // records have shown that it is not the order of their creation
}

// Filter is a query parameter that leaves out the records which were last
// changed before a moment.
type Filter struct {
	Param    string `json:"param"`     // updated_since, created[gte], …
	Field    string `json:"field"`     // top-level field of the records that it goes by
	Format   string `json:"format"`    // one of the Unit constants: how a moment is written
	ByChange bool   `json:"by_change"` // records have shown that it does not go by their creation
}

// The units and forms of times.
const (
	UnitSeconds  = "unix"     // seconds since 1970
	UnitMillis   = "unix_ms"  // milliseconds since 1970
	UnitRFC3339  = "rfc3339"  // 2026-11-21T10:05:00Z
	UnitDateTime = "datetime" // 2026-11-21 10:05:00, of no zone
	UnitDate     = "date"     // 2026-11-21
)

// ErrShape is wrapped by the errors of [Client.Pages] for an endpoint which
// answers in another way than its settled stream says: it is worth another
// [Client.Negotiate].
var ErrShape = errors.New("the endpoint answers in another way than it did")

// Fits reports whether c is about the request that s makes now, and has
// something to say.
func (c Convention) Fits(s schemas.Stream) bool {
	return c.Of == fingerprint(s) && !c.Open && (c.Thorough || !s.Incremental.Auto)
}

// Undecided reports whether another look may find how a list is asked for what has
// changed: an order or a filter by the time of change is there, as it seems, and no
// record has shown that it does not go by the creation.
func (c Convention) Undecided() bool {
	o, f := c.Order, c.Filter
	if f != nil && f.ByChange || f == nil && o != nil && o.ByChange {
		return false
	}
	return c.Waiting || f != nil && !f.ByChange || f == nil && o != nil && o.Desc && ofChange(o.Field) && !o.ByChange
}

// Renew is c with what a later look has found about the order and the filters.
func (c Convention) Renew(later Convention) Convention {
	c.Order, c.Filter, c.Waiting, c.LearnedAt = later.Order, later.Filter, later.Waiting, later.LearnedAt
	c.Requests += later.Requests
	about := func(f Fact) bool { return f.About == FactSort || f.About == FactFilter }
	c.Facts = slices.DeleteFunc(slices.Clone(c.Facts), about)
	for _, f := range later.Facts {
		if about(f) {
			c.Facts = append(c.Facts, f)
		}
	}
	return c
}

// About is c as a convention about the request that s makes now.
func (c Convention) About(s schemas.Stream) Convention {
	c.Of = fingerprint(s)
	return c
}

// Apply fills in what s leaves open, and what is but the catalogue's hint. What
// a person or a description states stands.
func (c Convention) Apply(s schemas.Stream) schemas.Stream {
	s = c.Drop(s)
	if c.Located && s.Stated["records"] == "" {
		others := slices.DeleteFunc(slices.Clone(s.Records), func(p string) bool { return p == c.Records })
		s.Records = append([]string{c.Records}, others...)
		s.Settled, s.Object = true, c.Object()
	}
	s.Context = cmp.Or(s.Context, c.Context)
	if len(s.Key) == 0 || c.Refuted(s.Key) && s.Stated["key"] == "" {
		s.Key = slices.Clone(c.Key)
	}
	order := s.Pagination.Order
	for _, name := range c.Volatile {
		if !slices.Contains(s.Volatile, name) {
			s.Volatile = append(slices.Clone(s.Volatile), name)
		}
	}
	s.Pagination = c.paging(s)
	if s.Incremental.Auto {
		s.Incremental = c.incremental(s.Incremental)
	}
	if s.Incremental.Set() && s.Incremental.Param == "" {
		s.Pagination.Order = order // a learned one would contradict the latest change first
	}
	return s
}

// Refuted reports whether two different records were found to have one key.
func (c Convention) Refuted(key []string) bool {
	return slices.ContainsFunc(c.RefutedKeys, func(k []string) bool { return slices.Equal(k, key) })
}

// Hypotheses is what of c holds whichever way the pages and records are found.
func (c Convention) Hypotheses() Convention {
	if len(c.Dropped)+len(c.RefutedKeys) == 0 {
		return Convention{}
	}
	h := Convention{Of: c.Of, LearnedAt: c.LearnedAt, Dropped: c.Dropped, RefutedKeys: c.RefutedKeys}
	for _, f := range c.Facts {
		if f.About == FactKey && len(c.RefutedKeys) > 0 || slices.Contains(c.Dropped, f.About) {
			h.Facts = append(h.Facts, f)
		}
	}
	if len(c.RefutedKeys) > 0 {
		h.Key = c.Key
	}
	return h
}

// incremental is how incremental passes request what has changed, as far as the
// probes have shown a way: by the time of the last change. One by the time of
// creation misses every edit.
func (c Convention) incremental(i schemas.Incremental) schemas.Incremental {
	switch f, o := c.Filter, c.Order; {
	case f != nil && f.ByChange:
		i.Field, i.Format, i.Param = f.Field, f.Format, f.Param
	case o != nil && o.Desc && o.ByChange && c.Units[o.Field] != "":
		i.Field, i.Format = o.Field, c.Units[o.Field]
	}
	return i
}

// ofChange reports whether a field's name says that it tells the last change.
func ofChange(field string) bool { return timeRank(field) == 0 }

// paging is how the pages of s are asked for.
func (c Convention) paging(s schemas.Stream) schemas.Pagination {
	p := s.Pagination
	switch {
	case c.Pagination.Type == "":
		return p
	case s.Stated["pagination"] == "":
		if p.Size != "" && c.Pagination.Size == "" {
			c.Pagination.Size, c.Pagination.Limit = p.Size, p.Limit // nobody minds it
		}
		return c.Pagination
	case p.Type == "", p.Type == c.Pagination.Type && p.Page == "":
		p.Type, p.Page, p.Zero, p.Query = c.Pagination.Type, c.Pagination.Page, c.Pagination.Zero, c.Pagination.Query
	}
	if p.Size == "" {
		p.Size, p.Limit = c.Pagination.Size, c.Pagination.Limit
	}
	p.Order = cmp.Or(p.Order, c.Pagination.Order)
	return p
}

// oneObject is the value of [FactPager] where the answer is no list.
const oneObject = "one object"

// Object reports whether the endpoint answers with one object, not with a list.
func (c Convention) Object() bool {
	f, _ := c.Fact(FactPager)
	return f.Value == oneObject
}

// Moved says how the records of now, which was found out later, stand elsewhere
// than those of c, or that a list has become one object; "" if neither does. A
// list that grows out of one object is no such change.
func (c Convention) Moved(now Convention) string {
	switch {
	case !c.Located || !now.Located:
		return ""
	case now.Object() && !c.Object():
		return "it was a list, and answers with one object now"
	case now.Records != c.Records:
		return fmt.Sprintf("its records were at %q, and are at %q now", c.Records, now.Records)
	}
	return ""
}

// Fact returns what is held about one thing, and whether anything is.
func (c Convention) Fact(about string) (Fact, bool) {
	i := slices.IndexFunc(c.Facts, func(f Fact) bool { return f.About == about })
	if i < 0 {
		return Fact{}, false
	}
	return c.Facts[i], true
}

// quoted is a text as YAML, bare where it can be nothing else.
func quoted(t string) string {
	if t != "" && strings.Trim(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/.") == "" {
		return t
	}
	q, _ := json.Marshal(t)
	return string(q)
}
