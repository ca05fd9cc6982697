package extract

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

type negotiation struct {
	c    *Client
	s    schemas.Stream
	l    *listReader
	at   records.Found
	rows []records.Row
	now  time.Time
	out  Convention

	thorough bool
	keeps    bool // a pass follows, so answers are kept for it
}

type keyRepeatsError struct{ key []string }

// Error names the key.
func (e *keyRepeatsError) Error() string {
	return fmt.Sprintf("the records of another page have the keys of the first page (%s)", strings.Join(e.key, ", "))
}

func (n *negotiation) isPagingError(err error) bool {
	_, ok := errors.AsType[*UnsettledError](err)
	return ok
}

// owned() reports whether the user defined the stream. A negotiation looks for keys only in such streams: the catalogue
// states the keys of its own streams.
func (n *negotiation) owned() bool { return n.s.Stated["path"] != "" }

func (n *negotiation) stated(about string) Provenance {
	if p := n.s.Stated[about]; p != "" {
		return Provenance(p)
	}
	return Learned
}

func (n *negotiation) keyFields() []string {
	key := slices.Clone(n.s.Key)
	if len(key) == 0 {
		key = slices.Clone(n.out.Key)
	}
	have := records.Fields(n.rows)
	for i, column := range key {
		if slices.Contains(have, column) {
			continue
		}
		if at := slices.IndexFunc(have, func(f string) bool { return schemas.Column(f) == column }); at >= 0 {
			key[i] = have[at]
		}
	}
	return key
}

func (n *negotiation) record(about, value string, evidence ...string) {
	n.out.Facts = append(n.out.Facts, Fact{About: about, Value: value, From: Learned, Evidence: evidence})
}

// open returns the fact with the given Fact constant. If there is none, open adds it. The pointer is valid until
// another fact is added.
func (n *negotiation) open(about string) *Fact {
	for i := range n.out.Facts {
		if n.out.Facts[i].About == about {
			return &n.out.Facts[i]
		}
	}
	n.out.Facts = append(n.out.Facts, Fact{About: about, From: Learned})
	return &n.out.Facts[len(n.out.Facts)-1]
}

func (n *negotiation) see(p *paging.Page) {
	f, err := n.l.locate(p.Doc)
	if err == nil {
		n.rows = append(n.rows, records.RowsOf(p.Doc, f)...)
	}
}

// keyRepeats returns an error if two different records share the key. It returns nil if the first page has changed
// meanwhile.
func (n *negotiation) keyRepeats(ctx context.Context, h *paging.Probe) error {
	if !h.Renamed || n.s.Stated["key"] != "" {
		return nil
	}
	fresh, err := n.l.look(ctx, paging.Position{})
	if err != nil {
		return err
	}
	defer n.c.release(fresh.a)
	if paging.Sum(fresh.batch.Content) != paging.Sum(h.First.Content) {
		return nil // the records change whenever they are read
	}
	return &keyRepeatsError{n.l.s.Key}
}
