package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type witnesses struct {
	verdict Verdict
	counts  Counts

	Why    string      `json:"why"`
	End    proof.Known `json:"end,omitempty"` // how the end of the list is known
	Doubts []string    `json:"doubts,omitempty"`
	Pass   string      `json:"pass,omitempty"` // id of the pass; empty if it is the id of the run
	proof.Facts
	Longest  *int64        `json:"longest,omitempty"` // nil if equal to the number of distinct records; replaces Facts.Longest
	Alive    *int64        `json:"alive,omitempty"`   // nil if equal to the number of distinct records
	Missing  int64         `json:"missing,omitempty"`
	Asked    int64         `json:"asked,omitempty"`
	NotFound int64         `json:"not_found,omitempty"`
	Decided  string        `json:"decided,omitempty"` // empty if it is [proof.NoneMissing]
	Since    *time.Time    `json:"since,omitempty"`   // records that have not changed since this time were not requested
	Held     string        `json:"held,omitempty"`
	Note     string        `json:"note,omitempty"`
	Gaps     []extract.Gap `json:"gaps,omitempty"`
}

func (e *ending) witnesses() witnesses {
	end, found := e.g.end, findings{}
	if e.found != nil {
		found = *e.found
	}
	return witnesses{
		verdict: e.verdict, counts: e.counts,
		Why: e.why(), End: e.facts.End(), Doubts: proof.Doubts(e.facts), Pass: e.p.id, Facts: e.facts,
		Longest: &e.facts.Longest, Alive: &e.table.Alive, Missing: e.table.Missing, Asked: found.answered, NotFound: found.gone,
		Decided: e.decision.Rule, Since: since(end.Since), Held: e.decision.Held,
		Note: notes(end.Note, found.note, twinNote(e.facts.Twin), e.leftByFilter(), refutationNote(e.k.incrementalRefuted, e.p.stream)), Gaps: end.Gaps,
	}
}

// shorten leaves out values that equal other members or columns of the certificate. A run that changes nothing adds
// little more than certificates to a destination, so they should be small.
func (w *witnesses) shorten(run string) {
	if w.Pass == run {
		w.Pass = ""
	}
	if w.Decided == proof.NoneMissing {
		w.Decided = ""
	}
	if *w.Longest == w.Distinct {
		w.Longest = nil
	}
	if *w.Alive == w.Distinct {
		w.Alive = nil
	}
}

func notes(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(note string) bool { return note == "" }), "; ")
}

func (e *ending) writeCertificate(ctx context.Context) error {
	k, p, g, w := e.k, e.p, e.g, e.witnesses()
	w.shorten(p.run.Run)
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	c := w.counts
	return load.WriteRows(ctx, k.tx, load.Certificates, []any{
		p.run.Run, p.run.Name, k.report.Title(), p.run.Now(), string(w.verdict), string(text),
		c.Fetched, w.Distinct, c.Written, c.Unchanged,
		c.Deduplicated, c.Rejected, c.Deleted, g.total.pages, g.total.requests,
	})
}

// drifted returns the notices of the pass. If the parameter `believed` is true, it also compares the profile of the
// pass with the stored profile. The parameter `shut` is true if the deletions of the pass wait for a decision of a
// person.
func (e *ending) drifted(shut, believed bool) []drift.Notice {
	p, g := e.p, e.g
	all := slices.Clone(p.noticed)
	for i := range all {
		all[i].Table = p.stream.Table.Name
	}
	all = append(all, p.noticeKey(g.total.clashes)...)
	all = append(all, noticeBound(p, g.total.beyond)...)
	if g.profile != nil && !p.stream.Window && believed {
		all = append(all, drift.Compare(p.known.Profile, g.profile, p.stream.Table.Name)...)
	}
	for i := range all {
		switch {
		case all[i].Kind != drift.NoticeCount:
		case shut:
			all[i].Severity = drift.Blocking
		case p.run.Options.ConfirmShrink:
			all[i].Severity = drift.Noted
		}
	}
	drift.Gravest(all)
	return all
}

// noticeBound returns a notice if the stream reaches its limit of columns or child tables. If an earlier pass has
// reached the limit, it returns none.
func noticeBound(p *pass, beyond []string) []drift.Notice {
	if len(beyond) == 0 || p.restKnown {
		return nil
	}
	columns, tables := p.stream.Bounds()
	reason := fmt.Sprintf("more than %d columns or %d child tables: %s and all further fields are in %s; to allow more, set max_columns and max_tables of the stream",
		columns, tables, strings.Join(beyond, ", "), schemas.ColRest)
	return []drift.Notice{{Severity: drift.Warned, Kind: drift.NoticeBound, Table: p.stream.Table.Name, Reason: reason}}
}

// note writes the notices of the pass, and what later runs must know about the stream.
func (e *ending) note(ctx context.Context) error {
	k, p, g := e.k, e.p, e.g
	if e.decision.Action == proof.Repeat {
		return k.learn(ctx, p, p.known)
	}
	shut := e.decision.Confirm
	found := append(e.drifted(shut, !k.refuted), k.noticed...)
	if left := e.leftByFilter(); left != "" {
		found = append(found, drift.Notice{Severity: drift.Noted, Kind: drift.NoticeFilter, Table: p.stream.Table.Name, Reason: left})
	}
	k.report.Notices, k.noticed = found, nil
	if err := load.WriteRows(ctx, k.tx, load.Changes, p.run.noticeRows(found)...); err != nil {
		return err
	}
	m := p.known
	if g.profile != nil && !shut && !k.refuted {
		if m.Rules = filterPrint(p.stream); !g.profile.Same(m.Profile) {
			m.Profile = g.profile
		}
	}
	return k.learn(ctx, p, m)
}

// leftByFilter returns a note if rows were marked as deleted in the first whole pass after the filter was changed. The
// source may still have their records.
func (e *ending) leftByFilter() string {
	p := e.p
	if e.counts.Deleted == 0 || p.known.Profile == nil || p.known.Rules == filterPrint(p.stream) {
		return ""
	}
	return fmt.Sprintf("%d rows were marked as deleted in the pass in which the stream's filter changed; the source may still have them", e.counts.Deleted)
}

func filterPrint(s schemas.Stream) string {
	if len(s.Rules.Filter) == 0 {
		return ""
	}
	text, err := json.Marshal(s.Rules.Filter)
	if err != nil {
		panic(err) // cannot happen: the filter contains only texts, numbers and lists of them
	}
	return strconv.FormatUint(parents.ID(text), 36)
}

// resolveRejects marks earlier rejects as resolved if they did not occur again in the pass.
func (e *ending) resolveRejects(ctx context.Context) error {
	k, p, resolved := e.k, e.p, e.resolved
	if len(resolved) == 0 {
		return nil
	}
	var rows [][]any
	now := p.run.Now()
	err := k.dest.Scan(ctx, load.Rejects.Name, reject.Columns(), func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			j := reject.At(b, i)
			if j.Pipeline == p.run.Name && j.Stream == p.stream.Name && !j.Resolved && resolved[j.ID()] {
				rows = append(rows, j.Values(now, j.Accepted))
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("resolve rejects: %w", err)
	}
	return load.WriteRows(ctx, k.tx, load.Rejects, rows...)
}
