package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

	Records    string             `json:"records,omitempty"` // JSON pointer, * for each element or value
	Key        []string           `json:"key,omitempty"`
	Pagination schemas.Pagination `json:"pagination"`
	Shape      string             `json:"shape,omitempty"` // outline of the envelope; another one is a reason to look anew

	Facts []Fact `json:"facts"`
}

// Fits reports whether c is about the request that s makes now.
func (c Convention) Fits(s schemas.Stream) bool { return c.Of != "" && c.Of == fingerprint(s) }

// Apply fills in what s leaves open. What s states stands.
func (c Convention) Apply(s schemas.Stream) schemas.Stream {
	if c.Records != "" && !slices.Contains(s.Records, c.Records) {
		s.Records = append([]string{c.Records}, s.Records...)
	}
	if len(s.Key) == 0 {
		s.Key = slices.Clone(c.Key)
	}
	p := &s.Pagination
	if p.Type == "" {
		p.Type = c.Pagination.Type
	}
	if p.Page == "" && p.Type == c.Pagination.Type {
		p.Page = c.Pagination.Page
	}
	if p.Size == "" {
		p.Size, p.Limit = c.Pagination.Size, c.Pagination.Limit
	}
	return s
}

// Fact returns what is held about one thing, and whether anything is.
func (c Convention) Fact(about string) (Fact, bool) {
	i := slices.IndexFunc(c.Facts, func(f Fact) bool { return f.About == about })
	if i < 0 {
		return Fact{}, false
	}
	return c.Facts[i], true
}

// Encode is c as the destinations keep it.
func (c Convention) Encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // a struct of strings, numbers and times
	}
	return string(b)
}

// DecodeConvention reads what [Convention.Encode] wrote.
func DecodeConvention(text string) (Convention, error) {
	var c Convention
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Convention{}, fmt.Errorf("read convention: %w", err)
	}
	return c, nil
}

// Negotiate finds out how s answers by probes that could refute each
// hypothesis, and returns what stands. known is what was held before; the zero
// value for nothing. It is an error, with the evidence in its text, when no
// hypothesis survives. It takes a bounded number of requests.
func (c *Client) Negotiate(ctx context.Context, s schemas.Stream, known Convention) (Convention, error) {
	n := &negotiation{c: c, s: s, out: Convention{Of: fingerprint(s), LearnedAt: time.Now().UTC()}}
	if err := n.run(ctx); err != nil {
		return Convention{}, fmt.Errorf("negotiate %s: %w", s.Name, err)
	}
	return n.out, nil
}

// negotiation is one endpoint being probed.
type negotiation struct {
	c   *Client
	s   schemas.Stream
	out Convention
}

// run asks for the first page and looks where its records are.
func (n *negotiation) run(ctx context.Context) error {
	params, err := constants(n.s)
	if err != nil {
		return err
	}
	a, err := n.c.fetch(ctx, n.s, params, position{})
	if err != nil {
		return err
	}
	defer n.c.release(a)
	n.out.Requests += a.requests
	f, err := find(a.d, n.s)
	if err != nil {
		return malformed(n.s, a.at, err)
	}
	n.out.Records, n.out.Shape = f.pointer, a.d.outline()
	n.out.Facts = append(n.out.Facts, Fact{
		About: FactRecords, Value: f.pointer, From: Learned,
		Evidence: []string{fmt.Sprintf("the first page is %s", a.d.outline())},
	})
	return nil
}
