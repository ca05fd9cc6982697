package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/state"
)

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// publish implements [draft]. // Invariants 1, 2, 13
func (d *tableDraft) publish(ctx context.Context, m *manifest) error {
	m.shelf, m.dir = d.shelf, d.key
	base, err := d.shelf.head(ctx)
	if err != nil {
		return err
	}
	if sequenceOf(base) != m.Parent || base.id() != m.id() {
		return state.ErrMoved
	}
	if err := d.store(ctx, m); err != nil {
		return err
	}
	if err := d.step("publish"); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.unsure = true
	if err := d.shelf.tabled.catalog.Commit(ctx, d.shelf.commitOf(base, m)); err != nil {
		if err = d.resolve(ctx, m, err); err != nil {
			return err
		}
	}
	d.unsure = false
	d.learn(m)
	kept := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			kept[f.key()] = true
		}
	}
	d.made = slices.DeleteFunc(d.made, func(key string) bool { return kept[key] })
	return nil
}

// store writes the manifest, which counts once the catalog names it.
func (d *tableDraft) store(ctx context.Context, m *manifest) error {
	m.Line = append(slices.Clone(m.Line), randomName())
	m.Line = m.Line[max(0, len(m.Line)-lineage):]
	m.name = strings.TrimPrefix(d.key, d.prefix) + "/_manifests/" + strings.TrimSuffix(fileName(m.Sequence), suffix) + ".json"
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := d.step("manifest"); err != nil {
		return err
	}
	d.made = append(d.made, d.prefix+m.name)
	return d.Write(ctx, m.name, append(text, '\n'))
}

// resolve finds out what became of a commit whose answer was no, or was lost.
// // Invariant 13
func (d *tableDraft) resolve(ctx context.Context, m *manifest, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	now, err := d.shelf.head(ctx)
	switch {
	case err != nil:
		return errors.Join(cause, err)
	case now != nil && slices.Contains(now.Line, m.id()):
		return nil // it was made, and the answer was lost
	case sequenceOf(now) >= m.Sequence:
		d.unsure = false
		return fmt.Errorf("%w: %w", state.ErrMoved, cause)
	}
	return cause
}

// move implements [draft]. It is not asked for: see [tx.idle].
func (d *tableDraft) move(context.Context, *manifest) error {
	return errors.New("a catalog has no commit of a cursor alone")
}
