package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
)

// otherLists detects that the client looks for the records in the wrong list of an answer. If a paging parameter
// changes another list of the answer, the records are in that list.
type otherLists struct {
	first   map[string]uint64 // hashes of the lists in the first answer, by pointer; 0: the list differs on every reading
	changed string
}

func (o *otherLists) observe(seed maphash.Seed, at paging.Position, d *jsondoc.Doc, f records.Found) {
	if o == nil || o.changed != "" {
		return
	}
	for _, place := range records.CandidatePlaces(d) {
		v := d.At(d.Root(), place)
		if place == f.Pointer || strings.HasPrefix(f.Pointer, place+"/") || !v.OK() {
			continue
		}
		h := maphash.Bytes(seed, d.Raw(v))
		before, known := o.first[place]
		switch {
		case o.first == nil:
			o.first = map[string]uint64{place: h}
		case at == paging.Position{}:
			if known && before != h {
				h = 0
			}
			o.first[place] = h
		case known && before != 0 && before != h:
			o.changed = place
			return
		}
	}
}

type otherListError struct {
	taken, place string
	cause        error
}

// Error returns the text of the cause.
func (e *otherListError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *otherListError) Unwrap() error { return e.cause }

// otherList returns an otherListError if the parameters of a probe change another list. To be sure, it requests the
// list again without these parameters: then the list must be the same as in the first answer. The argument `doubt` is
// the error with which the search for the paging has failed, or nil.
func (n *negotiation) otherList(ctx context.Context, doubt error) error {
	o := n.l.others
	if o == nil || o.changed == "" {
		return nil
	}
	fresh, err := n.l.look(ctx, paging.Position{})
	if err != nil {
		return err
	}
	defer n.c.release(fresh.a)
	v := fresh.a.d.At(fresh.a.d.Root(), o.changed)
	if !v.OK() || maphash.Bytes(n.c.seed, fresh.a.d.Raw(v)) != o.first[o.changed] {
		return nil
	}
	if doubt == nil {
		doubt = malformed(n.s, paging.Position{}, n.whichList(n.at.Pointer, o.changed,
			fmt.Sprintf("paging parameters leave the list at %s unchanged, but change the list at %s", n.at.Pointer, o.changed)))
	}
	return &otherListError{taken: n.at.Pointer, place: o.changed, cause: doubt}
}

func (n *negotiation) whichList(a, b, seen string) error {
	return &UnsettledError{
		Stream: n.s.Name, Fact: FactRecords, Seen: seen,
		YAML: fmt.Sprintf("streams:\n  %s:\n    records: %s # or %s\n", n.s.Name, quoted(b), quoted(a)),
	}
}

// longestList returns an otherListError with the longest list if several lists may hold the records. Otherwise it
// returns err.
func (n *negotiation) longestList(d *jsondoc.Doc, err error) error {
	places := records.CandidatePlaces(d)
	if len(places) < 2 || !n.mayChooseList() {
		return err
	}
	longest, most := "", 0
	for _, place := range places {
		count := 0
		for range d.Elements(d.At(d.Root(), place)) {
			count++
		}
		if count > most {
			longest, most = place, count
		}
	}
	return &otherListError{place: longest, cause: err}
}

func (n *negotiation) mayChooseList() bool {
	return n.owned() && n.s.Stated["records"] == "" && len(n.s.Records) == 0 && !n.s.Class.Single()
}

func (n *negotiation) inOtherList(ctx context.Context, e *otherListError) (*negotiation, error) {
	s := n.s
	s.Records = []string{e.place}
	again := &negotiation{c: n.c, s: s, thorough: n.thorough, keeps: n.keeps, out: Convention{Of: n.out.Of, LearnedAt: n.out.LearnedAt, Requests: n.out.Requests}}
	err := again.run(ctx)
	if _, ok := errors.AsType[*UnsettledError](err); ok || err == nil && (again.out.Pagination.Type == "" || again.out.Pagination.Type == "none") {
		n.out.Requests = again.out.Requests
		return n, e.cause
	}
	return again, err
}
