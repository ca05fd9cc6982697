package parquet

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// builder makes the next generation of a stream: a manifest, and files for rows that are new or changed.
type builder struct {
	lake   *Lake
	folder *folder
	key    state.Key
	from   state.Cursor // the cursor that the next generation replaces
	base   *manifest    // the generation before; nil: nothing was committed yet
	spec   load.Pass

	next     *manifest // nil: open() has not been called yet
	draft    pendingGeneration
	when     time.Time // time of the commit
	stamp    time.Time // time with which changes of tables are recorded in [load.Changes]
	log      *changeLog
	internal map[string]*load.Staged // rows for internal tables without a key
}

func newBuilder(l *Lake, f *folder, k state.Key, base *manifest, spec load.Pass) builder {
	return builder{lake: l, folder: f, key: k, from: cursorOf(base), base: base, spec: spec, internal: map[string]*load.Staged{}}
}

func (x *builder) open(ctx context.Context) (err error) {
	next := &manifest{store: x.folder.store, Format: 1, Pipeline: x.key.Pipeline, Stream: x.key.Stream, Source: x.key.Source}
	if x.base != nil {
		next = x.base.clone()
		next.Moves, next.MovedAt, next.StateAt = 0, time.Time{}, time.Time{}
		next.Pipeline = x.key.Pipeline
		next.Kept = append(next.Kept, generation{Sequence: x.base.Sequence, At: x.base.At, Name: x.base.name})
	}
	next.Sequence, next.Parent = sequenceOf(x.base)+1, sequenceOf(x.base)
	x.when = load.CommitTime(x.spec.Time(), committed(x.base))
	x.stamp = load.CommitTime(x.when, next.Changed)
	if x.draft, err = x.folder.store.draft(ctx); err != nil {
		return err
	}
	x.next = next
	return x.claim()
}

// newTable returns a new table. If the lake has a catalog, the columns get field IDs.
func (x *builder) newTable(t schemas.Table, by partition.Spec) *table {
	out := newTable(t, by)
	out.Made = x.spec.Run
	if x.lake.o.Catalog == nil {
		return out
	}
	if x.key.Source != "" {
		out.Numbered = byName
		out.owner = x.key.Source
	}
	out.number(nil)
	out.Folder = x.folder.store.(*tableStore).folder(t.Name)
	return out
}

func (x *builder) create(t *table, part string) (*writer, error) {
	if part = partition.Folder(part); t.Numbered != 0 {
		part = locationName(part)
	}
	name := filepath.Join(part, fileName(x.next.Sequence))
	out, err := x.draft.create(t, name)
	if err != nil {
		return nil, err
	}
	return newWriter(t, &file{Name: name, store: x.folder.store}, out, &x.lake.pool), nil
}

// file writes a file of a table. The function `fill` adds the rows.
func (x *builder) file(ctx context.Context, t *table, part string, fill func(*writer) error) (*file, error) {
	w, err := x.create(t, part)
	if err != nil {
		return nil, err
	}
	if err := fill(w); err != nil {
		w.abandon()
		return nil, err
	}
	return w.finish(ctx)
}

// The method each() calls f for every segment that has a file of the table. The result of f takes the place of the
// segment. If the result is nil, or has no file of the root table, the segment is removed. Several calls of f run at
// the same time.
func (x *builder) each(ctx context.Context, t *table, f func(context.Context, *segment) (*segment, error)) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(x.lake.o.Writers)
	for i, s := range x.next.Segments {
		if s.Files[t.Name] == nil {
			continue
		}
		work.Go(func() (err error) {
			x.next.Segments[i], err = f(ctx, s)
			return err
		})
	}
	err := work.Wait()
	kept := x.next.Segments[:0:0]
	for _, s := range x.next.Segments {
		if s != nil && s.root() != nil {
			kept = append(kept, s)
		}
	}
	x.next.Segments = kept
	return err
}

type changeLog struct {
	mu  sync.Mutex
	b   *array.RecordBuilder
	buf []byte
}
