package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	record, requests, err := c.Record(ctx, s, values)
	return record != nil, requests, err
}

// Record is the record that [Client.Present] asks for, as the source has it now:
// one JSON object, nil where the source says that there is none.
func (c *Client) Record(ctx context.Context, s schemas.Stream, values map[string][]byte) (record []byte, requests int, err error) {
	params, err := constants(s)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: %w", s.Name, err)
	}
	for _, p := range s.Params {
		if v, ok := values[p.Name]; ok {
			params = append(params, bound{p, v})
		}
	}
	a, err := c.fetch(ctx, s, params, position{})
	if gone(err) {
		return nil, requestsOf(err), nil
	}
	if err != nil {
		return nil, requestsOf(err), err
	}
	defer c.release(a)
	st := &step{a: a}
	l := c.newListReader(s, params, &endpointTraits{})
	l.asm.params = nil // it is told nothing of who asked
	if err := l.read(st); err != nil {
		return nil, a.requests, err
	}
	if st.batch.n != 1 {
		return nil, a.requests, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
	}
	all, err := elements(st.batch.json())
	if err != nil || len(all) != 1 {
		return nil, a.requests, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
	}
	return slices.Clone(all[0]), a.requests, nil
}

// Asked is a record of [Client.Record] as a pass over its stream has it, where the
// record tells by which parameter it was asked for. value is a JSON scalar.
func Asked(record []byte, param string, value []byte) []byte {
	name, _ := json.Marshal(param) // a string always marshals
	body := bytes.TrimRight(record, " \t\r\n")
	out := append(slices.Clone(body[:len(body)-1]), `,"`+contextKey+`":{`...)
	return append(append(append(append(out, name...), ':'), value...), "}}"...)
}

// Sample is the first page of a stream that hangs from no other. It is no pass:
// nothing is handed to the streams below.
func (c *Client) Sample(ctx context.Context, s schemas.Stream) (Page, error) {
	if s.Parent != "" {
		return Page{}, fmt.Errorf("stream %s: it hangs from another, and has no first page", s.Name)
	}
	if err := c.admit(s); err != nil {
		return Page{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := &pass{c: c, s: s, mark: newPassCursor(s)}
	for page, err := range p.pages(ctx) {
		page.Records = slices.Clone(page.Records)
		return page, err
	}
	return Page{}, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
}
