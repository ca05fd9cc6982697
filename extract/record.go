package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

var errNoRecord = errors.New("the answer neither holds the record nor says that it does not exist")

// Record requests one record of the stream s, and returns it as a JSON object. The argument `values` has a JSON scalar
// for each parameter, by name. Record returns nil only if the source says that there is no such record. Any other
// answer without the record is an error. The number of HTTP requests is one, plus retries.
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
	a, err := c.fetch(ctx, s, params, paging.Position{})
	if gone(err) {
		return nil, requestsOf(err), nil
	}
	if err != nil {
		return nil, requestsOf(err), err
	}
	defer c.release(a)
	st := &step{a: a}
	l := c.newListReader(s, params, &endpointTraits{})
	l.asm.params = nil // add no context, because there is no parent
	if err := l.read(st); err != nil {
		return nil, a.requests, err
	}
	if st.batch.N != 1 {
		return nil, a.requests, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
	}
	all, err := jsondoc.SplitArray(st.batch.json())
	if err != nil || len(all) != 1 {
		return nil, a.requests, fmt.Errorf("stream %s: %w", s.Name, errNoRecord)
	}
	return slices.Clone(all[0]), a.requests, nil
}

// WithContext adds to a record from [Client.Record] the context that a pass would add. For the parameter id and the
// value 7, it adds the member "_context":{"id":7}. The value is a JSON scalar.
func WithContext(record []byte, param string, value []byte) []byte {
	name, _ := json.Marshal(param)
	body := bytes.TrimRight(record, " \t\r\n")
	out := append(slices.Clone(body[:len(body)-1]), `,"`+records.ContextKey+`":{`...)
	return append(append(append(append(out, name...), ':'), value...), "}}"...)
}

// Sample returns the first page of a stream without a parent. Child streams take no values from it.
func (c *Client) Sample(ctx context.Context, s schemas.Stream) (Page, error) {
	if s.Parent != "" {
		return Page{}, fmt.Errorf("stream %s has a parent, so it has no first page", s.Name)
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
