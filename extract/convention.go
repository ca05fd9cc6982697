package extract

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// Provenance says where a fact about an endpoint comes from. If two facts differ, the provenance decides which of them
// is used.
type Provenance string

// The provenances, the strongest first. Probes check configured and imported facts too.
const (
	Configured Provenance = "configured" // pipelines.yaml
	Imported   Provenance = "imported"   // a published API description
	Learned    Provenance = "learned"    // found by probes
	Catalogued Provenance = "catalogue"  // a hint that ships with the program
)

// The facts of a convention.
const (
	FactSuccess  = "success"   // how an envelope distinguishes success from failure
	FactRecords  = "records"   // where the records are
	FactKey      = "key"       // which fields identify a record
	FactPager    = "pager"     // how the next page is requested
	FactPageSize = "page_size" // which parameter sets the page size, and its maximum
	FactSort     = "sort"      // the order of the records, and what makes it stable
	FactFilter   = "filter"    // which parameter leaves out unchanged records
	FactUnits    = "units"     // the units of times and amounts, by column
	FactVolatile = "volatile"  // which fields differ on every reading
)

// Fact is one finding about an endpoint.
type Fact struct {
	About    string     `json:"about"` // one of the Fact constants
	Value    string     `json:"value"` // for people; "" if nothing could be established
	From     Provenance `json:"from"`
	Evidence []string   `json:"evidence,omitempty"` // what the probes requested and saw, one sentence per probe
	Refuted  []string   `json:"refuted,omitempty"`  // hypotheses that are wrong, and why
}

// Convention is what is known about the answers of one endpoint, with the evidence. Destinations store it, so that
// later runs need not probe the endpoint again. The zero value says nothing. A Convention is immutable.
type Convention struct {
	Of        string    `json:"of"` // fingerprint of the request that the convention describes: see [Convention.Fits]
	LearnedAt time.Time `json:"learned_at"`
	Requests  int       `json:"requests"` // number of requests that the probes sent, retries included

	Open       bool               `json:"open,omitempty"`     // the answers did not show all facts; a later run probes again
	Thorough   bool               `json:"thorough,omitempty"` // probed for orders and filters too
	Located    bool               `json:"located,omitempty"`  // Records is known; a Records of "" stands for the whole body
	Records    string             `json:"records,omitempty"`  // JSON pointer; * stands for every element or value
	Context    string             `json:"context,omitempty"`  // name of the member of _context that describes a record's group, such as the stage of a board
	Key        []string           `json:"key,omitempty"`
	Pagination schemas.Pagination `json:"pagination"`
	Shape      string             `json:"shape,omitempty"` // outline of the envelope; if it changes, the endpoint is probed again

	Order  *Order            `json:"order,omitempty"`  // the order of the list if the request names no order
	Filter *Filter           `json:"filter,omitempty"` // nil if no filter is confirmed
	Units  map[string]string `json:"units,omitempty"`  // by top-level field: see the Unit constants of package records

	Volatile []string `json:"volatile,omitempty"` // top-level fields that differ on every reading

	// WaitsForChange reports that the order or filter seems to use the time of change. But it may use the time of
	// creation: the two times differ only after a user edits a record.
	WaitsForChange bool `json:"waiting,omitempty"`

	Dropped     []string   `json:"dropped,omitempty"`      // Hypothesis constants that the source has refuted
	RefutedKeys [][]string `json:"refuted_keys,omitempty"` // keys that two different records shared

	Facts []Fact `json:"facts"`
}

// Order is the order of a list if the request names no order.
type Order struct {
	Field    string `json:"field"`               // top-level field of the records
	Desc     bool   `json:"desc"`                // the largest or newest record comes first
	ByChange bool   `json:"by_change,omitempty"` // proved: the list is in the order of change, not of creation
}

// Filter is a query parameter that leaves out records whose last change is before a given time.
type Filter struct {
	Param    string `json:"param"`     // updated_since, created[gte], …
	Field    string `json:"field"`     // top-level field of the records that is compared with the parameter
	Format   string `json:"format"`    // how the time is written: one of the Unit constants of package records
	ByChange bool   `json:"by_change"` // proved: the filter compares the time of change, not of creation
}

// ErrShape is wrapped by errors of [Client.Pages] if the endpoint's answers no longer fit the stream. Another call of
// [Client.Negotiate] may find the new format.
var ErrShape = errors.New("the endpoint's answers changed shape")

// Fits reports whether c describes the request that s makes now, and has enough facts to be used.
func (c Convention) Fits(s schemas.Stream) bool {
	return c.Of == fingerprint(s) && !c.Open && (c.Thorough || !s.Incremental.Auto)
}

// Undecided reports whether another probe may find out how to request only changed records. That is so if the order or
// filter seems to use the time of change, but this is not proved yet.
func (c Convention) Undecided() bool {
	o, f := c.Order, c.Filter
	if f != nil && f.ByChange || f == nil && o != nil && o.ByChange {
		return false
	}
	return c.WaitsForChange || f != nil && !f.ByChange || f == nil && o != nil && o.Desc && records.OfChange(o.Field) && !o.ByChange
}

// Renew returns c with the order and the filter that a later negotiation found.
func (c Convention) Renew(later Convention) Convention {
	c.Order, c.Filter, c.WaitsForChange, c.LearnedAt = later.Order, later.Filter, later.WaitsForChange, later.LearnedAt
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

// About returns c with the fingerprint of the request that s makes now.
func (c Convention) About(s schemas.Stream) Convention {
	c.Of = fingerprint(s)
	return c
}

// Apply returns s with the facts of c. They fill in what s leaves open, and replace hints of the catalogue. What the
// user or an API description states does not change.
func (c Convention) Apply(s schemas.Stream) schemas.Stream {
	s = c.WithoutRefuted(s)
	if c.Located && s.Stated["records"] == "" {
		others := slices.DeleteFunc(slices.Clone(s.Records), func(p string) bool { return p == c.Records })
		s.Records = append([]string{c.Records}, others...)
		s.RecordsKnown, s.Object = true, c.Object()
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
		s.Pagination.Order = order // the pass needs the latest change first, so it does not request a learned order
	}
	return s
}

// Refuted reports whether the given key was refuted: two different records shared it.
func (c Convention) Refuted(key []string) bool {
	return slices.ContainsFunc(c.RefutedKeys, func(k []string) bool { return slices.Equal(k, key) })
}

// Hypotheses returns only the refuted hypotheses and keys of c. They stay refuted when the endpoint is probed again.
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

// incremental returns the settings i with the filter or order that was found. It never uses the time of creation,
// because a run would miss all updates.
func (c Convention) incremental(i schemas.Incremental) schemas.Incremental {
	switch f, o := c.Filter, c.Order; {
	case f != nil && f.ByChange:
		i.Field, i.Format, i.Param = f.Field, f.Format, f.Param
	case o != nil && o.Desc && o.ByChange && c.Units[o.Field] != "":
		i.Field, i.Format = o.Field, c.Units[o.Field]
	}
	return i
}

func (c Convention) paging(s schemas.Stream) schemas.Pagination {
	p := s.Pagination
	switch {
	case c.Pagination.Type == "":
		return p
	case s.Stated["pagination"] == "":
		if p.Size != "" && c.Pagination.Size == "" {
			c.Pagination.Size, c.Pagination.Limit = p.Size, p.Limit // sending the size parameter does no harm
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

const oneObject = "one object"

// Object reports whether the endpoint returns one object, not a list.
func (c Convention) Object() bool {
	f, _ := c.Fact(FactPager)
	return f.Value == oneObject
}

// Moved describes how the place of the records differs between c and a later convention. It also reports a list that
// has become one object. Otherwise it returns "", also for an object that has become a list at the same place.
func (c Convention) Moved(now Convention) string {
	switch {
	case !c.Located || !now.Located:
		return ""
	case now.Object() && !c.Object():
		return "it was a list and is one object now"
	case now.Records != c.Records:
		return fmt.Sprintf("its records were at %q, now they are at %q", c.Records, now.Records)
	}
	return ""
}

// Fact returns the fact with the given Fact constant. The bool reports whether c has it.
func (c Convention) Fact(about string) (Fact, bool) {
	i := slices.IndexFunc(c.Facts, func(f Fact) bool { return f.About == about })
	if i < 0 {
		return Fact{}, false
	}
	return c.Facts[i], true
}

// quoted() returns t as a YAML scalar, in quotes if YAML could read it as anything but text.
func quoted(t string) string {
	plain := strings.Trim(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_/.") == ""
	switch strings.ToLower(strings.Trim(t, ".")) {
	case "", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan":
		plain = false
	}
	if plain {
		return t
	}
	q, _ := json.Marshal(t)
	return string(q)
}
