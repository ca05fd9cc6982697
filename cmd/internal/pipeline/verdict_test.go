package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
)

// whole is a reading of n records on two pages whose list states no total.
func whole(n int64, change ...func(*reading)) reading {
	r := reading{
		end:    extract.End{Rule: extract.RuleNoNext, Pages: 2, FirstTotal: -1, LastTotal: -1},
		whole:  true,
		counts: Counts{Fetched: n, Written: n},
		digest: digest{rows: uint64(n), sum: 7},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func total(first, last int64) func(*reading) {
	return func(r *reading) { r.end.FirstTotal, r.end.LastTotal = first, last }
}

func duplicates(n int64) func(*reading) {
	return func(r *reading) { r.counts.Deduplicated, r.counts.Written = n, r.counts.Fetched-n }
}

func rule(name string) func(*reading) { return func(r *reading) { r.end.Rule = name } }

func under(v Verdict, asked, gone int) func(*reading) {
	return func(r *reading) {
		r.end.Rule, r.end.Parents, r.end.Gone, r.parent = extract.RuleParents, asked, gone, v
	}
}

func TestReadingVerdict(t *testing.T) {
	other := func(r *reading) { r.digest.sum = 8 }
	resumed := func(r *reading) { r.whole = false }
	reread := func(r *reading) { r.end.Reread = true }
	round := func(r *reading) { r.end.Round = true }
	doubled := func(r *reading) { r.end.Drift.Doubled = 1 }
	moved := func(r *reading) { r.end.Drift.Moved = 2 }
	stale := func(r *reading) { r.end.Drift.Stale = 1 }
	uneven := func(r *reading) { r.end.Drift.Uneven = 1 }
	gap := func(r *reading) { r.end.Gaps = []extract.Gap{{Rows: 1}} }
	twin := func(here, there int64) func(*reading) {
		return func(r *reading) { r.twin = &agreement{"x.twin", difference{here: here, there: there}} }
	}
	before := func(change ...func(*reading)) *reading { r := whole(10, change...); return &r }

	tests := []struct {
		name   string
		r      reading
		before *reading
		want   Verdict
	}{
		{"no witness", whole(10), nil, Consistent},
		{"total met", whole(10, total(10, 10)), nil, Proven},
		{"total on the last page alone", whole(10, total(-1, 10)), nil, Proven},
		{"total not met", whole(10, total(11, 11)), nil, Contradicted},
		{"total met by records, not by distinct ones", whole(10, total(10, 10), duplicates(1)), nil, Contradicted},
		{"total changed", whole(10, total(9, 10)), nil, Contradicted},
		{"total of nothing", whole(0, total(0, 0)), nil, Proven},
		{"total met, but resumed", whole(10, total(10, 10), resumed), nil, Consistent},
		{"total not met by the rest of a resumed pass", whole(4, total(10, 10), resumed), nil, Consistent},
		{"total changed in a resumed pass", whole(10, total(9, 10), resumed), nil, Contradicted},
		{"record on two pages", whole(10, duplicates(1)), nil, Unproven},
		{"record twice on the only page", whole(10, duplicates(1), func(r *reading) { r.end.Pages = 1 }), nil, Consistent},
		{"read twice by the source", whole(10, reread), nil, Proven},
		{"round page read twice", whole(10, reread, round), nil, Consistent},
		{"round page, and a second pass finds the same", whole(10, reread, round), before(reread, round), Consistent},
		{"round page of a list that was longer once", whole(10, reread, round, func(r *reading) { r.most = 11 }), nil, Proven},
		{"round page of a list that was as long", whole(10, reread, round, func(r *reading) { r.most = 10 }), nil, Consistent},
		{"round page with its total", whole(10, round, total(10, 10)), nil, Proven},
		{"single object", whole(1, rule(extract.RuleSingle)), nil, Proven},
		{"second pass finds the same", whole(10), before(), Proven},
		{"second pass finds the same duplicates: a list without an order", whole(10, duplicates(1)), before(duplicates(1)), Unproven},
		{"second pass finds the same record twice on one page", whole(10, duplicates(1), doubled), before(duplicates(1), doubled), Proven},
		{"second pass finds the same, but the total moved meanwhile", whole(10, total(10, 10), moved), before(), Unproven},
		{"total met, and pages from a cache", whole(10, total(10, 10), stale), nil, Consistent},
		{"second pass finds the same in a cache", whole(10, stale), before(stale), Consistent},
		{"second pass finds the same, on pages with holes", whole(10, uneven), before(uneven), Consistent},
		{"total met on uneven pages", whole(10, total(10, 10), uneven), nil, Proven},
		{"a gap", whole(9, gap), nil, Unproven},
		{"a gap, and the total says that it is one record", whole(9, gap, total(10, 10)), nil, Unproven},
		{"a gap, and the total says that more is missing", whole(9, gap, total(11, 11)), nil, Contradicted},
		{"the same gap twice", whole(9, gap), before(gap), Unproven},
		{"the twin has others", whole(10, total(10, 10), twin(0, 1)), nil, Unproven},
		{"the twin has fewer", whole(10, total(10, 10), twin(1, 0)), nil, Proven},
		{"second pass finds others", whole(10, other), before(), Unproven},
		{"second pass after a resumed one", whole(10), before(resumed), Consistent},
		{"second pass finds the same, against the total", whole(10, total(11, 11)), before(total(11, 11)), Contradicted},
		{"children of a proven list", whole(10, under(Proven, 3, 0)), nil, Proven},
		{"children of a proven list, one gone since", whole(10, under(Proven, 3, 1)), nil, Proven},
		{"children of a proven list, all gone", whole(0, under(Proven, 3, 3)), nil, Consistent},
		{"children of a proven list, one list short", whole(10, under(Proven, 3, 0), func(r *reading) { r.end.Short = 1 }), nil, Consistent},
		{"children of an empty proven list", whole(0, under(Proven, 0, 0)), nil, Proven},
		{"children of a consistent list", whole(10, under(Consistent, 3, 0)), nil, Consistent},
		{"children of a consistent list, twice", whole(10, under(Consistent, 3, 0)), before(under(Consistent, 3, 0)), Consistent},
		{"children shared by two parents", whole(10, under(Proven, 3, 0), duplicates(2)), nil, Proven},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tt.r.verdict(tt.before))
		})
	}
}

func TestEndingDecide(t *testing.T) {
	out := func(missing, alive int64) load.Outcome {
		return load.Outcome{Known: true, Missing: missing, Alive: alive}
	}
	base := func(n int64, v Verdict, o load.Outcome, change ...func(*ending)) ending {
		e := ending{reading: whole(n), verdict: v, outcome: o, keyed: true}
		e.end.Pages, e.missed = 1, o.Missing
		for _, c := range change {
			c(&e)
		}
		return e
	}
	last := func(e *ending) { e.last = true }
	pages := func(e *ending) { e.end.Pages = 2 }
	after := func(missed int64, change ...func(*reading)) func(*ending) {
		return func(e *ending) {
			r := whole(12, append(change, func(r *reading) { r.missed = missed })...)
			e.before = &r
		}
	}
	confirm := func(e *ending) { e.confirm = true }
	wanted := func(e *ending) { e.wanted = true }
	rejected := func(e *ending) { e.counts.Rejected = 1 }
	fanOut := func(e *ending) { e.end.Rule = extract.RuleParents }
	forgotten := func(e *ending) { e.outcome.Known = false }
	resumed := func(e *ending) { e.whole = false }
	stated := func(total int64) func(*ending) {
		return func(e *ending) { e.end.FirstTotal, e.end.LastTotal = total, total }
	}
	cut := func(e *ending) { e.end.Round = true }
	window := func(e *ending) { e.window = true }
	noKey := func(inserted int64) func(*ending) {
		return func(e *ending) { e.keyed, e.inserted = false, inserted }
	}

	tests := []struct {
		name string
		e    ending
		verb verb
		held bool
	}{
		{"nothing missing", base(10, Consistent, out(0, 10)), keep, false},
		{"nothing missing, children want proof", base(10, Consistent, out(0, 10), wanted), repeat, false},
		{"nothing missing, children want more than there is", base(10, Consistent, out(0, 10), wanted, last), keep, false},
		{"missing and proven", base(10, Proven, out(1, 11)), remove, false},
		{"missing from pages, read once", base(10, Proven, out(1, 11), pages), repeat, false},
		{"missing from pages, as many as before", base(10, Proven, out(1, 11), pages, last, after(1, total(12, 12))), remove, false},
		{"missing from pages, more than before", base(10, Proven, out(1, 11), pages, last, after(2, total(12, 12))), keep, true},
		{"missing from pages, as many as in a doubtful reading", base(10, Proven, out(1, 11), pages, last, after(1, total(13, 13))), keep, true},
		{"missing and consistent", base(10, Consistent, out(1, 11)), repeat, false},
		{"missing from a round page: to read it again would prove nothing", base(10, Consistent, out(1, 11), cut), keep, true},
		{"missing from a window", base(10, Consistent, out(1, 11), window), keep, false},
		{"missing from a proven window", base(10, Proven, out(1, 11), window), keep, false},
		{"nothing left of a window", base(0, Proven, out(3, 3), window), keep, false},
		{"resumed window", base(10, Consistent, out(3, 13), forgotten, window), keep, false},
		{"drift in a window", base(10, Unproven, out(0, 10), window), repeat, false},
		{"missing and consistent twice", base(10, Consistent, out(1, 11), last), keep, true},
		{"missing under an unproven parent", base(10, Consistent, out(1, 11), fanOut), keep, true},
		{"missing and rejected", base(10, Proven, out(1, 11), rejected), keep, true},
		{"rejected alone", base(10, Proven, out(0, 10), rejected), keep, false},
		{"drift", base(10, Unproven, out(0, 10)), repeat, false},
		{"drift twice", base(10, Unproven, out(0, 10), last), keep, true},
		{"contradicted", base(10, Contradicted, out(0, 10)), repeat, false},
		{"contradicted twice", base(10, Contradicted, out(5, 10), last), keep, true},
		{"resumed and forgotten", base(10, Consistent, out(3, 13), forgotten), repeat, false},
		{"resumed and forgotten under parents", base(10, Consistent, out(3, 13), forgotten, fanOut), repeat, false},
		{"resumed, and nothing missing", base(4, Consistent, out(0, 10), resumed), repeat, false},
		{"resumed, and the total met", base(4, Consistent, out(0, 10), resumed, stated(10)), keep, false},
		{"resumed, and the total not met", base(4, Consistent, out(0, 10), resumed, stated(11)), repeat, false},
		{"resumed under parents", base(4, Consistent, out(0, 10), resumed, fanOut), keep, false},
		{"100 of 200 gone", base(100, Proven, out(100, 200)), remove, false},
		{"101 of 1010 gone", base(909, Proven, out(101, 1010)), remove, false},
		{"101 of 1009 gone", base(908, Proven, out(101, 1009)), keep, true},
		{"101 of 1009 gone, confirmed", base(908, Proven, out(101, 1009), confirm), remove, false},
		{"all of 3 gone", base(0, Proven, out(3, 3)), keep, true},
		{"all of 3 gone, confirmed", base(0, Proven, out(3, 3), confirm), remove, false},
		{"all gone, confirmed but not proven", base(0, Consistent, out(3, 3), confirm, last), keep, true},
		{"an empty list over an empty table", base(0, Proven, out(0, 0)), keep, false},
		{"500 rows without a key, all changed", base(500, Proven, out(500, 1000), noKey(500)), remove, false},
		{"500 rows without a key, 200 left", base(200, Proven, out(500, 700), noKey(200)), keep, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := tt.e.decide()
			require.Equal(t, tt.verb, d.verb, "verb")
			require.Equal(t, tt.held, d.held != "", "held: %q", d.held)
		})
	}
}
