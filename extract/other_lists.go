package extract

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
)

// otherLists are the lists of an answer beside the one that was taken for its records.
// One that answers to the parameters of pages, where the taken one does not, is the list
// of the records.
type otherLists struct {
	first   map[string]uint64 // hashes of the lists in the first answer, by their place
	changed string            // the place of the first that a probe has changed; "" for none
}

// observe compares the lists of an answer with those of the first one. Lists that change
// without being asked for say nothing.
func (o *otherLists) observe(l *listReader, at position, d *doc, f found) {
	if o == nil || o.changed != "" {
		return
	}
	for _, place := range candidatePlaces(d) {
		v := d.at(place)
		if place == f.pointer || strings.HasPrefix(f.pointer, place+"/") || !v.ok() {
			continue
		}
		h := maphash.Bytes(l.c.seed, d.b[v.start:v.end])
		before, known := o.first[place]
		switch {
		case o.first == nil:
			o.first = map[string]uint64{place: h}
		case at == position{}:
			if known && before != h {
				h = 0 // it is another one each time
			}
			o.first[place] = h
		case known && before != 0 && before != h:
			o.changed = place
			return
		}
	}
}

// at is the value that a pointer of object members leads to.
func (d *doc) at(pointer string) value {
	v := d.root()
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if !d.isObject(v) {
			return missing
		}
		v = d.get(v, unescape(token))
	}
	return v
}

// otherListError says that the records stand elsewhere than they were thought to.
type otherListError struct {
	taken, place string
	cause        error // what is said where they do not stand there either
}

// Error says what was seen.
func (e *otherListError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *otherListError) Unwrap() error { return e.cause }

// otherList is an otherListError where a probe has changed another list than the one
// that was taken for the records, and that list comes again as it was without the probe.
func (n *negotiation) otherList(ctx context.Context, doubt error) error {
	o := n.l.others
	if o == nil || o.changed == "" {
		return nil
	}
	fresh, err := n.l.look(ctx, position{})
	if err != nil {
		return err
	}
	defer n.c.release(fresh.a)
	v := fresh.a.d.at(o.changed)
	if !v.ok() || maphash.Bytes(n.c.seed, fresh.a.d.b[v.start:v.end]) != o.first[o.changed] {
		return nil
	}
	if doubt == nil {
		doubt = malformed(n.s, position{}, n.whichList(n.at.pointer, o.changed,
			fmt.Sprintf("the list at %s stays as it is when more is asked for, and the one at %s changes", n.at.pointer, o.changed)))
	}
	return &otherListError{taken: n.at.pointer, place: o.changed, cause: doubt}
}

// whichList is the error of an answer with two lists that may be the records.
func (n *negotiation) whichList(a, b, seen string) error {
	return &UnsettledError{
		Stream: n.s.Name, About: FactRecords, Seen: seen,
		YAML: fmt.Sprintf("streams:\n  %s:\n    records: %s # or %s\n", n.s.Name, quoted(b), quoted(a)),
	}
}

// longestList is an otherListError with the longest of several lists, of which nothing
// tells which one the records are; err where there are no such lists.
func (n *negotiation) longestList(d *doc, err error) error {
	places := candidatePlaces(d)
	if len(places) < 2 || !n.chooses() {
		return err
	}
	longest, most := "", 0
	for _, place := range places {
		count := 0
		for range d.elements(d.at(place)) {
			count++
		}
		if count > most {
			longest, most = place, count
		}
	}
	return &otherListError{place: longest, cause: err}
}

// chooses reports whether nobody has said where the records stand.
func (n *negotiation) chooses() bool {
	return n.owned() && n.s.Stated["records"] == "" && len(n.s.Records) == 0 && !singleClass(n.s.Class)
}

// inOtherList negotiates anew with the records at the place that e names. They stand
// there where that list has pages; else what was said before holds.
func (n *negotiation) inOtherList(ctx context.Context, e *otherListError) (*negotiation, error) {
	s := n.s
	s.Records = []string{e.place}
	again := &negotiation{c: n.c, s: s, thorough: n.thorough, out: Convention{Of: n.out.Of, LearnedAt: n.out.LearnedAt, Requests: n.out.Requests}}
	err := again.run(ctx)
	if _, ok := errors.AsType[*UnsettledError](err); ok || err == nil && (again.out.Pagination.Type == "" || again.out.Pagination.Type == "none") {
		n.out.Requests = again.out.Requests
		return n, e.cause
	}
	return again, err
}
