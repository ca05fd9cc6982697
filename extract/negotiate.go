package extract

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// maxProbes limits the requests of one call of negotiation.run. Most lists need far fewer: 2 for a list of one page,
// 5 or 6 for a list with the usual paging. // Invariant 15
const maxProbes = 52

// Negotiate finds out how to read the stream s. It sends probes that may refute its hypotheses, and returns the
// hypotheses that remain. The number of requests is limited. If it cannot find out how to read the list, the error
// holds the evidence, and the Convention holds only the number of requests.
//
// Negotiate sends no request for a stream of files or for a child stream. For child streams, the first list of a pass
// shows how the lists are paged.
//
// A pass that begins within a minute uses the answers to the probes, and does not send the same requests again.
func (c *Client) Negotiate(ctx context.Context, s schemas.Stream) (Convention, error) {
	return c.negotiate(ctx, s, false)
}

// Explore does what [Client.Negotiate] does. It also looks for a query that sorts the list, and for a filter that
// leaves out unchanged records. If the server supports one of these, Explore sends about 5 to 15 more requests. A later
// pass cannot use the answers to these requests.
func (c *Client) Explore(ctx context.Context, s schemas.Stream) (Convention, error) {
	return c.negotiate(ctx, s, true)
}

func (c *Client) negotiate(ctx context.Context, s schemas.Stream, explore bool) (Convention, error) {
	n := &negotiation{c: c, s: s, keeps: !explore, thorough: explore || s.Incremental.Auto, out: Convention{Of: fingerprint(s), LearnedAt: c.cfg.Now().UTC()}}
	if s.Parent != "" || s.Class == schemas.ClassFile {
		return n.out, nil
	}
	err := n.run(ctx)
	if other, ok := errors.AsType[*otherListError](err); ok {
		n, err = n.inOtherList(ctx, other)
	}
	if repeats, ok := errors.AsType[*keyRepeatsError](err); ok {
		n, err = n.withoutKey(ctx, repeats)
	}
	if err != nil {
		doing := "negotiate"
		if n.at.Pointer == "" && n.out.Shape == "" {
			doing = "page 1" // no probe was sent yet
		}
		return Convention{Requests: n.out.Requests}, fmt.Errorf("%s: %w", doing, err)
	}
	return n.out, nil
}

func (n *negotiation) withoutKey(ctx context.Context, e *keyRepeatsError) (*negotiation, error) {
	s := n.s
	s.Key = nil
	again := &negotiation{c: n.c, s: s, thorough: n.thorough, keeps: n.keeps, out: Convention{
		Of: n.out.Of, LearnedAt: n.out.LearnedAt, Requests: n.out.Requests, RefutedKeys: [][]string{e.key},
		Facts: []Fact{{About: FactKey, From: Learned, Refuted: []string{e.Error()}}},
	}}
	return again, again.run(ctx)
}

// begin prepares the reading of the list. It sends no request.
func (n *negotiation) begin() error {
	params, err := constants(n.s)
	if err != nil {
		return err
	}
	present, err := presentMonth(n.s, n.c.cfg.Now())
	if err != nil {
		return err
	}
	params = append(params, present...)
	s := n.s
	s.RecordsKnown = false
	n.l = n.c.newListReader(s, params, &endpointTraits{})
	n.l.pager.Cautious, n.l.budget, n.l.asm.deep = true, maxProbes, true
	n.l.volatility = newVolatility()
	if n.mayChooseList() {
		n.l.others = &otherLists{}
	}
	n.l.foreseen = n.c.newEarly(n.s.Name, n.keeps)
	return nil
}

func (n *negotiation) run(ctx context.Context) error {
	if err := n.begin(); err != nil {
		return err
	}
	st, err := n.first(ctx)
	if err == nil {
		n.foresee(ctx, st)
		err = n.learn(ctx, st)
	}
	if st != nil {
		n.c.release(st.a)
	}
	n.out.Requests += n.l.requests + n.l.foreseen.settle()
	n.out.Thorough = n.thorough
	return err
}

func (n *negotiation) first(ctx context.Context) (*step, error) {
	a, err := n.c.fetch(ctx, n.l.s, n.l.params, paging.Position{})
	if err != nil {
		n.out.Requests += requestsOf(err)
		return nil, err
	}
	n.l.foreseen.watch(a, &n.l.listClient, paging.Position{})
	st := &step{a: a}
	if n.at, err = n.l.locate(a.d); err != nil {
		n.out.Requests += a.requests
		return st, n.longestList(a.d, malformed(n.s, a.at, n.recordsNotFound(a.d, err)))
	}
	n.rows, n.now = records.RowsOf(a.d, n.at), a.resp.Sent
	if n.at.ByPath {
		n.l.others = nil
	}
	n.l.others.observe(n.c.seed, paging.Position{}, a.d, n.at)
	n.envelope(a.d)
	n.key()
	err = n.l.read(st)
	return st, err
}

func (n *negotiation) learn(ctx context.Context, st *step) error {
	if st.Rule == RuleSingle {
		n.record(FactPager, oneObject, "the answer is one object, not a list")
		n.units()
		return nil
	}
	if err := n.pager(ctx, st); err != nil {
		return err
	}
	n.checkKey()
	n.volatile()
	n.order()
	n.units()
	if n.thorough && len(n.rows) > 1 {
		if err := n.filters(ctx, st); err != nil {
			return err
		}
		return n.sorting(ctx, st)
	}
	return nil
}

func (n *negotiation) recordsNotFound(d *jsondoc.Doc, err error) error {
	places := records.CandidatePlaces(d)
	yaml := fmt.Sprintf("streams:\n  %s:\n    records: POINTER # such as /data/items\n", n.s.Name)
	if len(places) > 0 {
		yaml = fmt.Sprintf("streams:\n  %s:\n    records: %s # or %s\n", n.s.Name, quoted(places[0]), strings.Join(places[1:], ", "))
	}
	if len(places) <= 1 {
		yaml = strings.Replace(yaml, " # or ", "", 1)
	}
	return &UnsettledError{Stream: n.s.Name, Fact: FactRecords, Seen: err.Error(), YAML: yaml}
}

func (n *negotiation) envelope(d *jsondoc.Doc) {
	n.out.Shape = d.Outline()
	how, value := successOf(d)
	n.record(FactSuccess, value, how)
	f := n.open(FactRecords)
	f.From = n.stated("records")
	if len(n.rows) == 0 && n.at.Form != records.FormOne {
		// The list is empty. Later answers may have their records in another list.
		f.Evidence = []string{fmt.Sprintf("the first page is %s; it has no records that would show their place", n.out.Shape)}
		n.out.Open = n.owned()
		return
	}
	f.Value = cmp.Or(n.at.Pointer, "the whole body")
	f.Evidence = []string{fmt.Sprintf("the first page is %s, with %d records", n.out.Shape, len(n.rows))}
	n.out.Records, n.out.Located = n.at.Pointer, true
	if n.at.Pointer != "" && strings.Contains(n.at.Pointer, "*") && n.owned() && n.s.Context == "" {
		n.out.Context = "group"
		for p := range n.at.All(d) {
			if p.In.Key != nil {
				n.out.Context = strings.TrimPrefix(records.ContainerKey, records.ContextKey+"__")
			}
			break
		}
		n.l.s.Context, n.l.asm.stream.Context = n.out.Context, n.out.Context
	}
}

func (n *negotiation) key() {
	if len(n.s.Key) > 0 || !n.owned() || len(n.rows) == 0 || len(n.out.RefutedKeys) > 0 {
		return
	}
	fields, refuted := records.FindKey(n.s, n.rows)
	key := schemas.KeyColumns(fields)
	n.out.Key = key
	n.l.s.Key, n.l.asm.stream.Key = key, key
	f := n.open(FactKey)
	f.Refuted = refuted
	if key != nil {
		f.Value = strings.Join(key, ", ")
	}
}

func (n *negotiation) checkKey() {
	key := n.s.Key
	if len(key) == 0 {
		if n.out.Key == nil {
			return
		}
		key = n.out.Key
	}
	f := n.open(FactKey)
	if len(n.s.Key) > 0 {
		f.From = Catalogued
		if n.owned() || n.s.Stated["key"] != "" {
			f.From = n.stated("key")
		}
		f.Value = strings.Join(key, ", ")
	}
	if slices.ContainsFunc(key, func(k string) bool { return strings.HasPrefix(k, records.ContextKey) && k != records.ContainerKey }) {
		return
	}
	if why := records.Distinct(n.rows, n.keyFields()...); why != "" {
		f.Refuted = append(f.Refuted, why)
		if f.From == Learned {
			f.Value, n.out.Key = "", nil
		}
		return
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("present and different in all %d records", len(n.rows)))
}

func successOf(d *jsondoc.Doc) (evidence, value string) {
	if d.IsObject(d.Root()) {
		for name, v := range d.Members(d.Root()) {
			switch n := jsondoc.Unquote(name); n {
			case "success", "is_success", "status", "ok":
				if !v.Nested() {
					value = n + ": " + string(d.Raw(v))
					return "the first page says " + value, value
				}
			}
		}
	}
	return "only the status code of the first page reports success", "status 200"
}

// volatile adds the volatile fields to the convention. They are not part of a row's hash. Otherwise every run would
// write every row again.
func (n *negotiation) volatile() {
	v := n.l.volatility
	names := slices.DeleteFunc(v.fields(), func(name string) bool {
		return slices.Contains(n.keyFields(), name) || slices.Contains(n.s.Volatile, name)
	})
	if len(names) == 0 {
		return
	}
	n.out.Volatile = names
	f := Fact{About: FactVolatile, Value: strings.Join(names, ", "), From: Learned}
	for _, name := range names {
		m := v.members[v.names[name]]
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s had another value in %d of %d repeated records; if only this field changes, the row is not written again", name, m.differ, m.shared))
	}
	n.out.Facts = append(n.out.Facts, f)
}
