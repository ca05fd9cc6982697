package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/parents"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// open reads the position that the destination stores for the stream. If the last pass was interrupted, the next pass
// usually continues there. A full reading always starts at the beginning, and so does a pass that is one transaction.
func (k *destinationRun) open(ctx context.Context, st *streamRun) error {
	if k.dest.Destination == nil {
		return nil
	}
	k.surveyed = k.inSurvey()
	stored, err := k.cursor(ctx, st.run)
	if err != nil {
		return err
	}
	k.stored = stored
	if k.wanted, err = k.children(ctx, st.run); err != nil {
		return err
	}
	pos, err := k.ownPosition(stored)
	if err != nil {
		return err
	}
	inPlace, err := k.inPlace(ctx, st)
	if err != nil {
		return err
	}
	switch b := st.run.Options.Backfill; {
	case b == nil:
	case b.StartOver:
		pos = cursor.Position{}
	case pos.Ended:
		k.wasDone(pos)
		return nil
	}
	k.longest, k.steady, k.passes, k.doubt, k.incrementalRefuted, k.over = pos.Longest, pos.Steady, pos.Passes, pos.ParentsUnsure, stillRefuted(pos.Refuted, st.stream), pos.LastWhole()
	if !inPlace {
		k.allParents = true
		return nil
	}
	if k.report.Backfill == "" && k.owes() {
		k.allParents = true
		if !pos.MidPass() {
			pos.Source = "" // read the whole list: an incremental pass may leave out the records of the webhook events
		}
	}
	if !pos.MidPass() {
		k.start = pos
	}
	switch {
	case st.run.Options.Full && (!pos.Ended || st.rules() == ""), pos.MidPass() && !st.parts(), pos.MidPass() && pos.Rules != st.rules():
		return err
	case pos.Rules != st.rules():
		pos.Source = "" // unchanged records must be mapped again too
	case pos.Ended && pos.Rules != "":
		forgotten, failed := k.hasForgottenRows(ctx, st)
		if failed != nil {
			return failed
		}
		if forgotten {
			pos.Source = ""
		}
	}
	k.pos = pos
	return err
}

// children reports whether the destination has loaded a child stream. If it has, the run may send more requests to
// prove the list of parents, because rows of child streams may be deleted only if that list is proven.
func (k *destinationRun) children(ctx context.Context, r *run) (bool, error) {
	for _, s := range r.Streams {
		if s.Parent != k.key.Stream {
			continue
		}
		at, err := k.dest.Cursor(ctx, r.Key(s.Name))
		if err != nil {
			return false, err
		}
		if at != "" {
			return true, nil
		}
	}
	return false, nil
}

// inPlace reports whether the table is still the table that the last pass wrote. If it is not, the stream must be read
// from the beginning.
func (k *destinationRun) inPlace(ctx context.Context, st *streamRun) (bool, error) {
	table := st.stream.Table.Name
	at, err := k.dest.StreamState(ctx, k.key, table)
	if err != nil {
		return false, err
	}
	if err := CheckOwner(st.run.claim(st.stream), k.key, k.stored, at); err != nil {
		return false, err
	}
	why := displaced(k.main, table, at)
	if why == "" {
		return true, nil
	}
	st.noticed = append(st.noticed, drift.Notice{Severity: drift.Warned, Kind: drift.NoticeTable, Table: table, Reason: why + ": the stream is read from the beginning"})
	return false, nil
}

var errForgotten = errors.New("a row must be written again")

// hasForgottenRows reports whether rows lost their original values when a column was widened. A whole pass must read
// these rows again, because an incremental pass may leave them out. // Invariant 11
func (k *destinationRun) hasForgottenRows(ctx context.Context, st *streamRun) (bool, error) {
	if s, ok := k.dest.Destination.(*surveyedDestination); ok {
		if found, ok := s.surveyOf(k.key); ok && found.Digest != "" && s.of[st.stream.Table.Name] == k.key {
			return found.Forgotten, nil
		}
	}
	columns := []string{schemas.ColHash, st.stream.Table.Mode.EndColumn()}
	err := k.dest.Scan(ctx, st.stream.Table.Name, columns, func(b arrow.RecordBatch) error {
		for row := range int(b.NumRows()) {
			if b.Column(1).IsNull(row) && rowhash.Text(b.Column(0), row) == "" {
				return errForgotten
			}
		}
		return nil
	})
	if errors.Is(err, errForgotten) {
		return true, nil
	}
	return false, err
}

func (k *destinationRun) ownPosition(stored state.Cursor) (pos cursor.Position, err error) {
	k.main, err = cursor.Decode(stored)
	if err != nil || k.report.Backfill == "" {
		return k.main, err
	}
	return k.main.Backfill(k.report.Backfill)
}

func (k *destinationRun) wasDone(pos cursor.Position) {
	k.finished = true
	k.report.Status = StatusComplete
	k.report.Done, _ = time.Parse(time.RFC3339, pos.DoneAt)
}

// owes reports whether a webhook event requires that the whole stream is read.
func (k *destinationRun) owes() bool {
	a, err := k.main.Applied()
	return err == nil && a.Refresh > 0
}

func (k *destinationRun) enter(ctx context.Context, p *pass) ([]schemas.Table, error) {
	k.passRecord = passRecord{begun: k.main, resumed: p.resumes, prior: k.before}
	if !p.resumes {
		k.whole++
	}
	if k.pos.Pass != "" {
		k.passes, k.doubt = k.pos.Passes, k.pos.ParentsUnsure
	}
	if k.dest.Destination == nil {
		return nil, nil
	}
	tables, err := k.dest.Tables(ctx, p.stream.Table.Name)
	if err == nil && k.rejects == nil {
		k.rejects, err = p.run.openRejects(ctx, k.dest, p.stream.Name)
	}
	if err == nil && p.parents != nil {
		past := parents.Past{Passes: k.passes, Unsure: k.doubt, Trusted: k.pos.Pass != "" && !k.allParents}
		k.parentage, err = k.parentTable(p).Recall(ctx, p.parents, past, tables)
	}
	return tables, err
}

func (k *destinationRun) parentTable(p *pass) parents.Table {
	var dest load.Destination = k.dest
	if s, ok := k.dest.Destination.(*surveyedDestination); ok {
		dest = parentsOf{s, k.key, p.stream.Table.Mode.EndColumn()}
	}
	return parents.Table{Dest: dest, Files: k.folder, Pipeline: p.run.Name, Stream: p.stream}
}
