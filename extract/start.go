package extract

import (
	"context"
	"fmt"
	"math"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/schemas"
)

// Start is what the first page of a list shows about the size of the list.
type Start struct {
	Records  int   // records on the page
	Total    int64 // records of the list, stated or estimated from the number of pages; -1 if the page does not show it
	More     bool  // the list has more pages
	One      bool  // the answer is one object, not a list
	Bytes    int64 // size of the page
	Requests int   // number of requests for the page, including retries; it is also set if Start returns an error
}

// Start requests the first page of a stream, and nothing else. It sends no request for a stream of files or for a
// child stream.
func (c *Client) Start(ctx context.Context, s schemas.Stream) (Start, error) {
	out := Start{Total: -1}
	if s.Parent != "" || s.Class == schemas.ClassFile {
		return out, nil
	}
	n := &negotiation{c: c, s: s}
	if err := n.begin(); err != nil {
		return out, err
	}
	st, err := n.first(ctx)
	out.Requests, out.Bytes = n.out.Requests+n.l.requests, n.l.bytes
	if st != nil {
		defer c.release(st.a)
	}
	if err != nil {
		return out, fmt.Errorf("page 1: %w", err)
	}
	said := st.signals
	out.Records, out.Total = st.batch.N, said.Total
	if last := said.LastPage; out.Total < 0 && last > 1 && last < math.MaxInt32 {
		out.Total = last * int64(out.Records)
	}
	out.One = st.Rule == RuleSingle
	ends := out.One || said.More == paging.No || said.LastPage == 1
	out.More = !ends && (out.Total > int64(out.Records) || out.Total < 0 && said.AnnouncesMore())
	if ends && out.Total < 0 {
		out.Total = int64(out.Records)
	}
	return out, nil
}
