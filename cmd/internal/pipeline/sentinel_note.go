package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// drifted returns the notices of the pass that ends with g. It compares profiles only if believed is true. shut says
// that the deletions wait for a person.
func (p *pass) drifted(g *group, shut, believed bool) []drift.Notice {
	all := slices.Clone(p.noticed)
	for i := range all {
		all[i].Table = p.stream.Table.Name
	}
	all = append(all, p.noticeKey(g.total.clashes)...)
	all = append(all, p.noticeBound(g.total.beyond)...)
	if g.profile != nil && !p.stream.Window && believed {
		all = append(all, drift.Compare(p.known.Profile, g.profile, p.stream.Table.Name)...)
	}
	for i := range all {
		switch {
		case all[i].Kind != drift.NoticeCount:
		case shut:
			all[i].Severity = drift.Blocking
		case p.Options.ConfirmShrink:
			all[i].Severity = drift.Noted
		}
	}
	drift.Gravest(all)
	return all
}

// noticeBound returns a notice if the stream reaches its limit of columns or child tables. Only the first such pass
// has the notice.
func (p *pass) noticeBound(beyond []string) []drift.Notice {
	if len(beyond) == 0 || p.restKnown {
		return nil
	}
	columns, tables := p.stream.Bounds()
	reason := fmt.Sprintf("more than %d columns or %d child tables: %s and all further fields are in %s; to allow more, set max_columns and max_tables of the stream",
		columns, tables, strings.Join(beyond, ", "), schemas.ColRest)
	return []drift.Notice{{Severity: drift.Warned, Kind: drift.NoticeBound, Table: p.stream.Table.Name, Reason: reason}}
}

func (k *destinationRun) note(ctx context.Context, p *pass, g *group, e *ending) error {
	if e.decision.Action == proof.Repeat {
		return k.learn(ctx, p, p.known)
	}
	shut := e.decision.Confirm
	found := append(p.drifted(g, shut, !k.refuted), k.noticed...)
	if left := p.leftByFilter(e); left != "" {
		found = append(found, drift.Notice{Severity: drift.Noted, Kind: drift.NoticeFilter, Table: p.stream.Table.Name, Reason: left})
	}
	k.report.Notices, k.noticed = found, nil
	if err := load.WriteRows(ctx, k.tx, load.Changes, p.noticeRows(found)...); err != nil {
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

// leftByFilter returns a note if rows were marked as deleted perhaps only because the stream's filter has changed.
// The source may still have their records.
func (p *pass) leftByFilter(e *ending) string {
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

func (r *run) noticeRows(all []drift.Notice) [][]any {
	at, rows := r.Now(), make([][]any, len(all))
	for i, n := range all {
		rows[i] = []any{at, r.Run, n.Table, n.Column, "", load.ActionDrift, n.From, n.To, string(n.Severity) + ": " + n.Kind + ": " + n.Reason}
	}
	return rows
}

func (st *streamRun) recordHeld(ctx context.Context, err error) error {
	changed, ok := errors.AsType[*ChangedError](err)
	if !ok || ctx.Err() != nil {
		return err
	}
	reason := changed.Reason
	if changed.Err != nil {
		reason += ": " + changed.Err.Error()
	}
	all := []drift.Notice{{Severity: drift.Blocking, Kind: drift.NoticeEnvelope, Table: st.origin.Table.Name, Reason: reason}}
	for _, k := range st.destinations {
		if k.finished || k.dest.Destination == nil {
			continue
		}
		k.report.Notices = all
		if failed := k.recordHeld(ctx, st.run, all); failed != nil {
			err = errors.Join(err, fmt.Errorf("record the notice in %s: %w", k.dest.Name, failed))
		}
	}
	return err
}

func (k *destinationRun) recordHeld(ctx context.Context, r *run, all []drift.Notice) error {
	k.rollback()
	stored, err := k.cursor(ctx, r)
	if err != nil {
		return err
	}
	pos, err := cursor.Decode(stored)
	if err != nil {
		return err
	}
	pos.TouchedBy = r.Run // makes the cursor differ; the position stays the same
	return load.CommitRows(ctx, k.dest, k.key, stored, pos.Encode(), load.Pass{Run: r.Run, Whole: true, Now: r.Now}, load.Changes, r.noticeRows(all)...)
}
