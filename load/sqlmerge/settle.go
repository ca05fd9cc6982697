package sqlmerge

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// settling is a settlement: the commit of a pass that has changed no rows. It also has the positions of the stream
// before and after this commit.
type settling struct {
	load.Settlement
	from, to position
	index    int // index of the settlement in the arguments of Settle
}

// Settle commits the bookkeeping of many streams in one transaction; see [load.Surveyor]. If the answer to a commit is
// lost, the commit may have succeeded. The next attempt then finds the new positions. // Invariants 1, 2
func (d *Store) Settle(ctx context.Context, all []load.Settlement) []error {
	errs := make([]error, len(all))
	var due []settling
	d.mu.Lock()
	for i, s := range all {
		at := d.surveyed[s.Key].at
		if at.sequence == 0 || at.cursor != s.Expected {
			errs[i] = fmt.Errorf("settle %s: %w", s.Key.Stream, state.ErrMoved)
			continue
		}
		due = append(due, settling{Settlement: s, from: at, index: i})
	}
	d.mu.Unlock()
	if len(due) == 0 {
		return errs
	}
	err := d.b.Retry(ctx, func() error { return d.settleOnce(ctx, due, errs) })
	if err != nil {
		d.settleEach(ctx, due, errs, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range due {
		if known, ok := d.surveyed[s.Key]; ok && errs[s.index] == nil && known.at == s.from {
			known.at, known.Cursor, known.Settled = s.to, s.Next, true
			d.surveyed[s.Key], d.positions[s.Key] = known, s.to
			continue
		}
		delete(d.surveyed, s.Key)
		delete(d.positions, s.Key)
	}
	return errs
}

// mostAlike is the number of consecutive failures after which settleEach stops, because the cause probably concerns all
// streams.
const mostAlike = 3

// settleEach commits each settlement in a separate transaction, because a single stream may have caused the error of
// the common transaction. It makes one attempt for each settlement.
func (d *Store) settleEach(ctx context.Context, due []settling, errs []error, err error) {
	alike := 0
	if errors.Is(err, state.ErrLocked) { // each attempt would wait for the other process again
		alike = mostAlike
	}
	for i := range due {
		if len(due) > 1 && ctx.Err() == nil && alike < mostAlike {
			err = d.settleOnce(ctx, due[i:i+1], errs)
		} else if err == nil {
			err = ctx.Err() // this settlement was not tried // Invariant 14
		}
		if alike++; err == nil {
			alike = 0
			continue
		}
		errs[due[i].index] = fmt.Errorf("settle %s: %w", due[i].Key.Stream, err)
	}
}

// settleOnce makes one attempt. If the position of a stream has changed, it sets the stream's error in errs. It commits
// all other settlements.
//
// It need not compare rows with the digests of the survey again. The survey has read the digests and the positions in
// one snapshot, and each commit of penstock moves the position of its stream. So if a stream still has the position
// from the survey, no commit has changed its rows since then. Until this transaction ends, no commit can change them,
// because the stream's row in [load.State] is locked.
// Invariants 2, 13
func (d *Store) settleOnce(ctx context.Context, due []settling, errs []error) (err error) {
	if err := d.b.Step("begin"); err != nil {
		return err
	}
	s, err := d.b.Write(ctx)
	if err != nil {
		return err
	}
	defer s.End()
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Rollback())
		}
	}()
	sql := &statements{Session: s, ctx: ctx, step: d.b.Step, changed: map[string]bool{}}
	open, err := d.openOf(ctx, s, due, errs)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		return s.Rollback()
	}
	in := settleScope(d.b, open)
	for i := range open {
		open[i].to = position{cursor: open[i].Next, sequence: open[i].from.sequence + 1, moved: in.when.UnixMicro()}
		due[slices.IndexFunc(due, func(x settling) bool { return x.index == open[i].index })].to = open[i].to
	}
	if err := sql.step("state"); err != nil {
		return err
	}
	if open, err = movePositions(sql, in, open, errs); err != nil {
		return err
	}
	if len(open) == 0 {
		return s.Rollback()
	}
	if err := d.writeOwn(sql, in, open); err != nil {
		return err
	}
	if err := sql.step("precommit"); err != nil {
		return err
	}
	if err := s.Commit(ctx); err != nil {
		return err
	}
	return d.b.Step("committed")
}

// openOf returns the settlements that no earlier attempt has committed. It locks the rows of the streams. So if an
// earlier attempt is still committing, openOf waits for the end of that attempt. // Invariants 1, 13
func (d *Store) openOf(ctx context.Context, s Session, due []settling, errs []error) (open []settling, err error) {
	var now map[string]position
	if slices.ContainsFunc(due, func(x settling) bool { return x.to.sequence > 0 }) {
		if now, err = lockPositions(ctx, d.b, s, due); err != nil {
			return nil, err
		}
	}
	for _, x := range due {
		errs[x.index] = nil // forget the error of an earlier attempt
		if x.to.sequence == 0 || now[x.Key.Stream] != x.to {
			open = append(open, x)
		}
	}
	return open, nil
}

// lockPositions locks the rows of the streams in [load.State], always in the same order, and reads them. It needs no
// locks if transactions exclude each other. // Invariant 13
func lockPositions(ctx context.Context, b Backend, s Session, due []settling) (map[string]position, error) {
	names := make([]string, len(due))
	for i, x := range due {
		names[i] = b.Literal(x.Key.Stream)
	}
	now := map[string]position{}
	where := whereSource(b, due[0].Key) + " AND stream IN (" + strings.Join(names, ", ") + ") ORDER BY stream"
	if _, pooled := b.(Pooled); pooled {
		where += " FOR UPDATE"
	}
	if err := readPositions(ctx, b, s, where, func(stream string, p position) { now[stream] = p }); err != nil {
		return nil, fmt.Errorf("lock the cursors: %w", err)
	}
	return now, nil
}

// settleScope returns the scope that all statements of a settlement share. The time of the commit is later than the
// time of each stream's last commit.
func settleScope(b Backend, open []settling) *scope {
	in := &scope{Dialect: b, traits: b.Traits(), source: open[0].Key.Source}
	for _, x := range open {
		in.run = max(in.run, x.Pass.Run)
		if at := load.CommitTime(x.Pass.Time(), time.UnixMicro(x.from.moved)); at.After(in.when) {
			in.when = at
		}
	}
	return in
}

// writeOwn writes the rows of penstock's own tables.
func (d *Store) writeOwn(sql *statements, in *scope, open []settling) (err error) {
	var pending []*load.Staged
	defer func() {
		for _, p := range pending {
			p.Release()
		}
	}()
	for _, x := range open {
		for _, r := range x.Rows {
			b := load.WithSource(r.Table, r.Batch, in.source)
			pending, err = load.Stage(pending, r.Table, b)
			b.Release()
			if err != nil {
				return fmt.Errorf("write %s: %w", r.Table.Name, err)
			}
		}
	}
	c := newCatalog(d.b, sql.Session, open[0].Pass)
	names := tablesOf(pending)
	if err := c.read(sql.ctx, names...); err != nil {
		return err
	}
	if err := c.checkSafe(names); err != nil {
		return err
	}
	f := &fitting{sql: sql, c: c, in: in, seen: &seen{fresh: map[string]bool{}, tables: &d.tables}, pending: pending, tables: c.targets(in, names), altered: map[string]load.Plan{}}
	if err := f.fit(); err != nil {
		return err
	}
	m := &merge{sql: sql, in: in, tables: f.tables, seen: f.seen, out: &load.Outcome{}}
	return m.rows(pending)
}

// movePositions stores the new positions, and returns the settlements whose positions it has stored. If the position of
// a stream has changed, it sets the error [state.ErrMoved] instead. The update also locks the rows. A separate
// statement for the locks would write more to the log of the database. If another process settles the same streams in
// another order, the database ends one of the two transactions. The next attempt at this transaction compares the
// positions again.
// Invariants 2, 13
func movePositions(sql *statements, in *scope, open []settling, errs []error) (moved []settling, err error) {
	rows := make([]string, len(open))
	for i, x := range open {
		rows[i] = fmt.Sprintf("(%s, %s, %d, %s, %s)", in.Literal(x.Key.Stream), in.Literal(string(x.from.cursor)), x.from.sequence,
			in.Literal(string(x.Next)), in.Timestamp(time.UnixMicro(x.from.moved)))
	}
	source := ""
	if in.source != "" {
		source = " AND t." + schemas.ColSource + " = " + in.Literal(in.source)
	}
	found := map[string]bool{}
	err = sql.Query(sql.ctx, fmt.Sprintf(`UPDATE %s AS t SET "cursor" = v.next, sequence = v.place + 1, updated_at = %s FROM (VALUES %s) AS v (stream, old, place, next, moved)
		WHERE t.pipeline = %s%s AND t.stream = v.stream AND t.sequence = v.place AND t."cursor" = v.old AND coalesce(t.updated_at, %s) = v.moved RETURNING t.stream`,
		in.Place(load.State.Name), in.Timestamp(in.when), strings.Join(rows, ", "), in.Literal(open[0].Key.Pipeline), source, in.Timestamp(time.UnixMicro(0))), func(v []driver.Value) error {
		stream, _ := v[0].(string)
		found[stream] = true
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("move cursors: %w", err)
	}
	for _, x := range open {
		if found[x.Key.Stream] {
			moved = append(moved, x)
			continue
		}
		errs[x.index] = fmt.Errorf("settle %s: %w", x.Key.Stream, state.ErrMoved)
	}
	return moved, nil
}
