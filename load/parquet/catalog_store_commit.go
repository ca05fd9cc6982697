package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/state"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

type tableGeneration struct {
	*bucketGeneration
	tables *tableStore

	parentID   *string // the ID of the previous commit, set by the first call of publish
	parentLine []string
	restored   string // the table in which the commit undoes the changes of other programs; "": none

	// otherCommits is set if this commit widens columns of shared tables and must rewrite files of other sources: see
	// [tx.agree].
	otherCommits map[string]*builder // commits of other sources in the same step, by source
	lastCommits  map[string]string   // the last commit of each other source; nil: not read yet
	widened      map[string]bool     // tables whose columns are widened for all sources
}

// publish commits m. It may be called again after a [*Disagreement] or [ErrConcurrentSource]. // Invariants 1, 2, 13
func (d *tableGeneration) publish(ctx context.Context, m *manifest) error {
	c, err := d.commitAfter(ctx, m, d.rebase)
	if err != nil {
		return err
	}
	for _, source := range d.others() {
		y := d.otherCommits[source]
		one, err := y.draft.(*tableGeneration).commitAfter(ctx, y.next, nil)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrConcurrentSource, err)
		}
		c.OtherSources = append(c.OtherSources, one)
	}
	c.LastCommits = d.lastCommits
	for i, t := range c.Tables {
		c.Tables[i].Reset = t.Reset || d.widened[t.Table]
	}
	if err := d.store.bucket.step("publish"); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.outcomeUnknown = true
	if err := d.tables.parent.catalog.Commit(ctx, c); err != nil {
		if err = d.resolve(ctx, m, err); err != nil {
			return err
		}
	}
	d.markCommitted(m)
	for _, source := range d.others() {
		y := d.otherCommits[source]
		y.draft.(*tableGeneration).markCommitted(y.next)
	}
	return nil
}

func (d *tableGeneration) others() []string {
	if d.lastCommits == nil {
		return nil
	}
	return sorted(d.otherCommits)
}

// commitAfter stores the manifest m and returns a commit for it. If m does not follow the stream's last commit, because
// another commit came first, commitAfter returns [state.ErrMoved]. To prevent that, the function `moved` may change m
// so that m follows the other commit. commitAfter calls this function before it stores m, if the function is not nil.
func (d *tableGeneration) commitAfter(ctx context.Context, m *manifest, moved func(base, m *manifest) bool) (Commit, error) {
	m.store = d.tables
	if d.parentID == nil {
		id := m.id()
		d.parentID, d.parentLine = &id, m.Line
	}
	base, err := d.tables.head(ctx)
	if err != nil {
		return Commit{}, err
	}
	if moved != nil {
		moved(base, m)
	}
	if sequenceOf(base) != m.Parent || base.id() != *d.parentID {
		return Commit{}, state.ErrMoved
	}
	if err := d.storeManifest(ctx, m); err != nil {
		return Commit{}, err
	}
	return d.tables.commitOf(base, m, d.restored), nil
}

// rebase makes m follow the generation `base` instead of m's parent. It does so only if all commits in between keep the
// rows: see [manifest.Beside]. If other sources had to widen columns in the files of this source,
// [tx.agree] widens the columns of m in the same way. If another process has removed old rows of internal tables in
// between (see [Lake.Trim]), m still has these rows, and the next removal removes them. Otherwise rebase changes nothing
// and returns false.
//
// The files of m keep the sequence number in their names. If this number is not above that of the oldest kept
// generation, tidy could remove the files. So rebase returns false in that case too.
func (d *tableGeneration) rebase(base, m *manifest) bool {
	if base == nil || base.Sequence == m.Parent || base.Sequence-m.Parent != base.Beside-m.Beside ||
		!slices.Contains(base.Line, *d.parentID) || len(base.Kept) == 0 || base.Kept[0].Sequence > m.Parent {
		return false
	}
	id := base.id()
	d.parentID, d.parentLine = &id, base.Line
	m.Parent, m.Sequence, m.Beside = base.Sequence, base.Sequence+1, base.Beside
	return true
}

func (d *tableGeneration) markCommitted(m *manifest) {
	d.outcomeUnknown = false
	d.tables.learn(m)
	kept := map[string]bool{d.store.bucket.prefix + m.name: true}
	for _, t := range m.Tables {
		for _, f := range m.named(t) {
			kept[f.key()] = true
		}
	}
	d.stored = slices.DeleteFunc(d.stored, func(key string) bool { return kept[key] })
}

func (d *tableGeneration) discard() error {
	err := d.bucketGeneration.discard()
	for _, y := range d.otherCommits {
		of := y.draft.(*tableGeneration)
		of.outcomeUnknown = d.outcomeUnknown
		err = errors.Join(err, of.discard())
	}
	return err
}

// storeManifest stores m in a file. This has no effect until the catalog names the file.
func (d *tableGeneration) storeManifest(ctx context.Context, m *manifest) error {
	m.Line = append(slices.Clone(d.parentLine), randomName())
	m.Line = m.Line[max(0, len(m.Line)-lineage):]
	m.name = d.tables.manifestFolder() + "/" + strings.TrimSuffix(fileName(m.Sequence), suffix) + ".json"
	if m.Format = 1; m.deletes() {
		m.Format = formatVersion
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := d.store.bucket.step("manifest"); err != nil {
		return err
	}
	d.stored = append(d.stored, d.store.bucket.prefix+m.name)
	return d.store.bucket.Write(ctx, m.name, append(text, '\n'))
}

// resolve is called after a commit has failed. The parameter cause is the error of the commit. Perhaps the commit took
// effect, and only the answer was lost. resolve finds out whether that is so.
// Invariant 13
func (d *tableGeneration) resolve(ctx context.Context, m *manifest, cause error) error {
	if _, ok := errors.AsType[*Disagreement](cause); ok || errors.Is(cause, ErrConcurrentSource) {
		d.outcomeUnknown = false
		return cause
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), objects.Patience)
	defer cancel()
	now, err := d.tables.head(ctx)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case now != nil && slices.Contains(now.Line, m.id()):
		return nil
	case d.rebase(now, m):
		d.outcomeUnknown = false
		return fmt.Errorf("%w: %w", ErrConcurrentSource, cause)
	case sequenceOf(now) >= m.Sequence:
		d.outcomeUnknown = false
		return fmt.Errorf("%w: %w", state.ErrMoved, cause)
	}
	return cause
}

// move is never called: see [tx.idle].
func (d *tableGeneration) move(context.Context, *manifest) error {
	return errors.New("a catalog cannot commit a cursor without files")
}
