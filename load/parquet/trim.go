package parquet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Trim implements [load.Trimmer]. Each stream has internal tables of its own. So Trim makes one commit for each stream
// that has rows to remove. The manifests have the age of the oldest row of each file (see [file.Oldest]). If no file has
// old rows, Trim opens no file. Otherwise it reads the certificates of all streams of the pipeline, and locks only the
// streams with old rows.
//
// If sources share the streams, each source has files of its own, and Trim removes only rows of r.Source.
func (l *Lake) Trim(ctx context.Context, r load.Retention) (n load.Trimmed, err error) {
	left, whole, due := l.trims.Due(trimKey(r))
	if !due {
		return n, nil
	}
	left.Pipeline = r.Pipeline
	t := &trim{lake: l, Retention: left, whole: whole}
	if err = t.run(ctx); err != nil {
		return t.n, fmt.Errorf("remove old rows: %w", err)
	}
	l.trims.Done(trimKey(left))
	return t.n, nil
}

// trimKey returns r with a name in place of the pipeline that also includes the source. So the rows of each source are
// removed on the same day.
func trimKey(r load.Retention) load.Retention {
	r.Pipeline += "\x00of\x00" + r.Source
	return r
}

// trim removes old rows from the internal tables of several streams.
type trim struct {
	load.Retention
	lake   *Lake
	whole  bool            // rows of the pipeline are removed, not only events and notes
	newest map[string]bool // the runs that have the newest certificate of a stream

	mu sync.Mutex
	n  load.Trimmed // rows that were removed by finished commits
}

// run makes a commit for each stream that has old rows. If the commit of one stream fails, run goes on with the other
// streams.
func (t *trim) run(ctx context.Context) error {
	folders, err := t.folders(ctx)
	if err != nil {
		return err
	}
	manifests, err := t.lake.look(ctx, folders, (*folder).manifest)
	if err != nil {
		return err
	}
	due := func(m *manifest) bool { return t.due(m) }
	if !slices.ContainsFunc(manifests, due) {
		return nil
	}
	if err := t.findNewest(ctx, manifests); err != nil {
		return err
	}
	var work errgroup.Group // without a context, because a failure of one stream does not stop the others
	work.SetLimit(trimLimit)
	failed := make([]error, len(manifests))
	for i, m := range manifests {
		if !t.due(m) {
			continue
		}
		work.Go(func() error {
			if err := t.stream(ctx, folders[i], m.key()); err != nil {
				failed[i] = fmt.Errorf("stream %s: %w", m.Stream, err)
			}
			return nil
		})
	}
	return errors.Join(append(failed, work.Wait())...)
}

// trimLimit is how many streams Trim works on at the same time. Each of them writes as many files at the same time as
// [Options].Writers says.
const trimLimit = 2

// folders returns the folders of streams that are not shared, and the folders of the source in shared streams.
func (t *trim) folders(ctx context.Context) (out []*folder, err error) {
	names, err := t.lake.storage.streams(ctx, "")
	for _, name := range names {
		if _, source, shared := strings.Cut(filepath.ToSlash(name), "/"+sourcePrefix); !shared || source == t.Source {
			out = append(out, t.lake.folderNamed(name))
		}
	}
	return out, err
}

// The method ours() reports whether m is the manifest of one of the pipeline's streams, or of the events of the source.
// A stream of events has the source's name in place of the pipeline's name.
func (t *trim) ours(m *manifest) bool {
	return m != nil && (m.Source == "" || m.Source == t.Source) && (m.Pipeline == t.Pipeline || m.Pipeline == t.Source)
}

// The method due() reports whether one of the stream's files may have rows to remove.
func (t *trim) due(m *manifest) bool {
	return t.ours(m) && slices.ContainsFunc(t.rules(&load.Trimmed{}), func(r trimRule) bool {
		return slices.ContainsFunc(m.segmentsOf(r.table), r.due)
	})
}

// findNewest finds the runs that have the newest certificate of a stream. These runs and their certificates stay,
// however old they are.
func (t *trim) findNewest(ctx context.Context, manifests []*manifest) error {
	newest := map[string]string{}
	for _, m := range manifests {
		if !t.ours(m) || !t.whole {
			continue
		}
		for _, s := range m.segmentsOf(load.Certificates.Name) {
			err := s.root().read(ctx, m.table(s.Table), []string{"pipeline", "stream", "run"}, func(_ int64, c []arrow.Array, rows int) error {
				for i := range rows {
					if stream, run := textAt(c[1], i), textAt(c[2], i); textAt(c[0], i) == t.Pipeline && run > newest[stream] {
						newest[strings.Clone(stream)] = strings.Clone(run)
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	t.newest = map[string]bool{}
	for _, run := range newest {
		t.newest[run] = true
	}
	return nil
}

// stream removes the old rows of one stream in one commit, which keeps the cursor.
func (t *trim) stream(ctx context.Context, f *folder, k state.Key) (err error) {
	x := &tx{builder: newBuilder(t.lake, f, k, nil, load.Pass{Now: func() time.Time { return t.Now }})}
	x.seen, x.unmerged = newSeenRows(newPass("")), true
	defer func() { err = errors.Join(err, x.Rollback()) }()
	if err := x.lock(ctx); err != nil {
		return err
	}
	if x.base, err = f.manifestOf(ctx, k); err != nil || !t.due(x.base) {
		return err
	}
	x.from, x.spec.Run = cursorOf(x.base), x.base.Run
	if err := x.prepareTrim(ctx); err != nil {
		return err
	}
	var n load.Trimmed
	for _, r := range t.rules(&n) {
		if err := x.removeOld(ctx, r); err != nil {
			return fmt.Errorf("table %s: %w", r.table, err)
		}
	}
	if n == (load.Trimmed{}) {
		return nil
	}
	// Transactions that began before this commit can go on, because the rows of their tables have not changed. So the
	// fence must not count this commit. // Invariant 13
	x.next.Beside++
	x.next.Moves, x.next.MovedAt = x.base.Moves, x.when
	if x.next.StateAt = x.base.StateAt; x.next.StateAt.IsZero() {
		x.next.StateAt = committed(x.base)
	}
	err = x.commit(ctx, x.from)
	if x.done { // the rows are removed, even if a step after the commit has failed
		t.add(n)
	}
	return err
}

func (t *trim) add(n load.Trimmed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.n.Certificates += n.Certificates
	t.n.Runs += n.Runs
	t.n.Rejects += n.Rejects
	t.n.RowChanges += n.RowChanges
	t.n.Checks += n.Checks
	t.n.Events += n.Events
	t.n.Notes += n.Notes
}

// prepareTrim opens the next generation. If another program has changed a table of the stream, or removed its files,
// prepareTrim returns an error: the next run must find this change. // Invariant 16
func (x *tx) prepareTrim(ctx context.Context) error {
	if err := x.lake.step("trim"); err != nil {
		return err
	}
	if x.folder.store.costly() && x.folder.checkedRun == x.spec.Run {
		return x.open(ctx)
	}
	for _, step := range []func(context.Context) error{x.tidy, x.open} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for _, t := range x.next.Tables {
		c, err := x.next.condition(ctx, t)
		if err != nil {
			return err
		}
		if diff := c.diff(); diff != nil {
			return &load.ForeignChange{Table: t.Name, Diff: diff}
		}
	}
	return nil
}

// removeOld writes the files again that have rows to remove. It removes files that would have no rows.
func (x *builder) removeOld(ctx context.Context, r trimRule) error {
	t := x.next.table(r.table)
	if t == nil {
		return nil
	}
	var removed atomic.Int64
	err := x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		if !r.due(s) {
			return s, nil
		}
		edits, err := r.edits(ctx, t, s.root())
		if err != nil || len(edits) == 0 {
			return s, err
		}
		removed.Add(int64(len(edits)))
		if int64(len(edits)) == s.root().Rows {
			return nil, nil
		}
		fresh, err := x.patch(ctx, s.root(), s.Part, &patch{t: t, edits: edits})
		if err != nil {
			return nil, err
		}
		return s.with(t.Name, fresh), nil
	})
	*r.count += removed.Load()
	return err
}
