package extract

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// Negotiate finds out how s answers by probes that could refute each
// hypothesis, and returns what stands. known is what was held before; the zero
// value for nothing. It is an error, with the evidence in its text, when no
// hypothesis survives; the Convention beside it still tells the requests that
// took. It takes a bounded number of requests. A stream with a parent is not
// asked anything: its lists are learned with the first parent that is read.
func (c *Client) Negotiate(ctx context.Context, s schemas.Stream, known Convention) (Convention, error) {
	n := &negotiation{c: c, s: s, out: Convention{Of: fingerprint(s), LearnedAt: time.Now().UTC()}}
	if err := n.run(ctx); err != nil {
		return Convention{Requests: n.out.Requests}, fmt.Errorf("negotiate %s: %w", s.Name, err)
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
