package extract

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/schemas"
)

// errNoRecord is why an answer says neither yes nor no.
var errNoRecord = errors.New("an answer without the record, which does not say that there is none")

// Present asks for the one record of s that values lead to, JSON scalars by the
// name of the parameter, and reports whether the source has it. Only an answer
// which says that there is no such record is a no; whatever else is not the
// record is an error. It takes one request, and as many more as the answers make
// it try again.
func (c *Client) Present(ctx context.Context, s schemas.Stream, values map[string][]byte) (present bool, requests int, err error) {
	params, err := constants(s)
	if err != nil {
		return false, 0, fmt.Errorf("stream %s: %w", s.Name, err)
	}
	for _, p := range s.Params {
		if v, ok := values[p.Name]; ok {
			params = append(params, bound{p, v})
		}
	}
	a, err := c.fetch(ctx, s, params, position{})
	if gone(err) {
		return false, requestsOf(err), nil
	}
	if err != nil {
		return false, requestsOf(err), err
	}
	defer c.release(a)
	st := &step{a: a}
	if err := c.newListing(s, params, &habits{}).read(st); err != nil {
		return false, a.requests, err
	}
	if st.batch.n == 0 {
		return false, a.requests, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
	}
	return true, a.requests, nil
}
