//go:build iceberg

package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

type commit struct {
	*catalog
	spec      parquet.Commit
	head      *head
	number    int64 // number of the commit; the names of the files that it writes begin with this number
	snapshots map[string]int64
}

// Commit implements [parquet.Catalog].
func (c *catalog) Commit(ctx context.Context, spec parquet.Commit) error {
	if spec.Source == "" {
		return c.commit(ctx, spec)
	}
	turn := c.commitLock(spec.Stream)
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-turn }()
	return c.commit(ctx, spec)
}

func (c *catalog) commitLock(stream string) chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commitLocks[stream] == nil {
		c.commitLocks[stream] = make(chan struct{}, 1)
	}
	return c.commitLocks[stream]
}

// commitRetry limits the repetitions of a commit while other processes commit to the same tables.
var commitRetry = retry.Policy{First: 10 * time.Millisecond, Longest: time.Second, Jitter: 0.5, Total: 2 * time.Minute}

// unknownRetry limits the repetitions of a commit whose answer was lost. Each attempt first finds out whether an
// earlier attempt has committed.
var unknownRetry = retry.Policy{First: 500 * time.Millisecond, Longest: 8 * time.Second, Jitter: 0.5, Attempts: 5}

// commit tries to commit, and tries again if another source or program has committed first. Each attempt starts from
// the present tables, and keeps everything that other sources have committed. Only the metadata is written again. The
// data files were written before the first attempt. Invariant 15
func (c *catalog) commit(ctx context.Context, spec parquet.Commit) error {
	tries, unknown := commitRetry.Begin(), unknownRetry.Begin()
	for {
		at, err := c.attempt(ctx, spec)
		if err == nil {
			return nil
		}
		wait := tries
		if errors.Is(err, errUnknown) {
			wait = unknown
		} else if !errors.Is(err, errConflict) {
			now, asked := c.locate(ctx, parquet.HeadTable(spec.Stream))
			if asked != nil || now == at {
				return err
			}
		}
		switch again := wait.Again(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !again && wait == unknown:
			return err
		case !again:
			return fmt.Errorf("cannot commit to the tables of %s, to which other sources or programs keep committing: %w", spec.Stream, err)
		}
	}
}

func (c *catalog) attempt(ctx context.Context, spec parquet.Commit) (at string, err error) {
	names := slices.Clone(spec.Dropped)
	for _, t := range spec.Tables {
		names = append(names, t.Name)
	}
	all, err := c.backend.locate(ctx, names...)
	if err != nil {
		return "", err
	}
	at = all[parquet.HeadTable(spec.Stream)]
	h, err := c.head(ctx, spec.Stream, spec.Source, at)
	if err == nil {
		err = h.checkPlacement(spec.Source)
	}
	if err != nil {
		return at, err
	}
	last := h.Head
	if last == nil {
		last = &parquet.Head{}
	}
	switch {
	case last.ID == spec.ID:
		return at, nil // an earlier attempt has made this commit, and its answer was lost. Invariant 1
	case last.ID != spec.Parent:
		return at, fmt.Errorf("%w: another process has committed to %s", state.ErrMoved, spec.Stream)
	case h.othersMoved(spec):
		return at, parquet.ErrConcurrentSource
	}
	w := &commit{catalog: c, spec: spec, head: h, number: spec.Sequence, snapshots: map[string]int64{}}
	if spec.Source != "" {
		w.number = h.number + 1
		maps.Copy(w.snapshots, h.tables)
	}
	return at, w.make(ctx, all)
}

// make writes the new metadata files of the tables. Then it commits the changes of all tables. The parameter locations
// has the location of each table's present metadata.
func (w *commit) make(ctx context.Context, locations map[string]string) error {
	if err := load.Step(w.step, "metadata"); err != nil {
		return err
	}
	editions, err := w.editions(ctx, locations)
	if err != nil {
		return err
	}
	if err := w.claim(ctx, editions[len(editions)-1]); err != nil {
		return err
	}
	var changes []change
	for _, e := range editions {
		c := change{table: e.t.Name, from: locations[e.t.Name], base: e.base}
		if err := w.writeTable(ctx, e, &c); err != nil {
			return fmt.Errorf("table %s: %w", e.t.Name, err)
		}
		if c.updates != nil {
			changes = append(changes, c)
		}
	}
	for _, name := range w.spec.Dropped {
		if locations[name] != "" {
			changes = append(changes, change{table: name, from: locations[name]})
		}
	}
	if err := load.Step(w.step, "swap"); err != nil {
		return err
	}
	if err := w.backend.commit(ctx, changes); err != nil {
		return err
	}
	if err := load.Step(w.step, "swapped"); err != nil {
		return err
	}
	for _, c := range changes {
		if c.to != "" {
			w.learn(c.table, c.to, c.meta)
		}
	}
	return nil
}

// editions prepares the new metadata of all tables. If it has to create tables, it returns errConflict. The next
// attempt then finds these tables.
func (w *commit) editions(ctx context.Context, locations map[string]string) (out []*edition, err error) {
	created := false
	for _, t := range combined(w.spec) {
		e, err := w.edit(ctx, t, locations[t.Name])
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
		if e.base == nil {
			exists, err := w.backend.create(ctx, t.Name, e.updates)
			if err != nil {
				return nil, fmt.Errorf("create table %s: %w", t.Name, err)
			}
			created = created || exists
		}
		out = append(out, e)
	}
	if created {
		return nil, errConflict
	}
	return out, nil
}

// edit prepares the new metadata of a table. It returns an error if another program has changed the table.
// Invariant 16
func (w *commit) edit(ctx context.Context, t parquet.TableFiles, at string) (*edition, error) {
	want, ours := w.head.tables[t.Name]
	switch {
	case at == "" && t.PreviousColumns != nil && (!t.Restore || w.spec.Source != ""):
		return nil, &load.ForeignChange{Table: t.Table, Diff: []string{diffDropped}}
	case at == "":
		return newEdition(w.catalog, t, w.spec)
	}
	meta, err := w.load(ctx, t.Name, at)
	if err != nil {
		return nil, err
	}
	if !ours {
		if meta.Properties()[propStream] != w.spec.Stream {
			return nil, &load.ForeignChange{Table: t.Table, Diff: []string{"another table of that name is in the catalog"}}
		}
		if err := checkCreated(t, meta); err != nil {
			return nil, err
		}
		return nextEdition(t, w.spec, at, meta, since{}) // an interrupted commit has created the table, or has not yet dropped it
	}
	past, err := w.lookBack(ctx, meta, want)
	if err != nil {
		return nil, err
	}
	if past.diff != nil && !t.Restore || past.last == nil && w.spec.Source != "" {
		return nil, &load.ForeignChange{Table: t.Table, Diff: past.diff}
	}
	return nextEdition(t, w.spec, at, meta, past)
}

// checkCreated returns an error if the catalog has created the table with field IDs of its own. Then readers would not
// find the columns in penstock's data files.
func checkCreated(t parquet.TableFiles, meta table.Metadata) error {
	want, err := schemaOf(t.Columns, t.Key, t.Versions)
	if err != nil || meta.CurrentSnapshot() != nil {
		return err
	}
	if diff := otherIDs(want, meta.CurrentSchema()); diff != nil {
		return fmt.Errorf("the catalog changes the field IDs of new tables, so penstock cannot use it: %s", diff[0])
	}
	return nil
}

// writeTable writes the metadata files of a table's new snapshot, and sets the fields of c. The head table of the
// stream must be the last table for which it is called, because the head table lists the new snapshots of the other
// tables.
func (w *commit) writeTable(ctx context.Context, e *edition, c *change) error {
	heads := e.t.Name == parquet.HeadTable(w.spec.Stream)
	if e.last == nil || heads || e.renewed || e.t.Changed() {
		if err := w.snapshot(ctx, e, heads); err != nil {
			return err
		}
	} else {
		w.snapshots[e.t.Name], e.current = e.last.SnapshotID, e.base.CurrentSnapshot().SnapshotID
	}
	if heads && e.shared {
		props, err := headsOf(w.spec)
		if err == nil {
			err = e.do(table.NewSetPropertiesUpdate(props))
		}
		if err != nil {
			return err
		}
	}
	if err := w.expire(e); err != nil {
		return err
	}
	if e.updates == nil {
		return nil
	}
	var err error
	if c.meta, err = e.b.Build(); err != nil {
		return err
	}
	c.updates = e.updates
	return w.backend.prepare(ctx, c, fmt.Sprintf("%s/metadata/%08d-%s.metadata.json", e.t.Folder, w.number, uuid.New()))
}

func (w *commit) snapshot(ctx context.Context, e *edition, heads bool) error {
	id := rand.Int64N(math.MaxInt64-1) + 1
	s := table.Snapshot{SnapshotID: id, SequenceNumber: 1, TimestampMs: time.Now().UnixMilli()}
	if e.base != nil {
		s.SequenceNumber = e.base.LastSequenceNumber() + 1
		s.TimestampMs = max(s.TimestampMs, e.base.LastUpdatedMillis())
	}
	if e.last != nil {
		s.ParentSnapshotID = &e.last.SnapshotID
	}
	schema := e.b.CurrentSchema()
	s.SchemaID = &schema.ID
	list, totals, err := w.manifestsOf(ctx, e, id)
	if err != nil {
		return err
	}
	if s.ManifestList, err = w.writeList(ctx, e, s, list); err != nil {
		return err
	}
	w.snapshots[e.t.Name], e.current = id, id
	if s.Summary, err = w.summary(e, totals, heads); err != nil {
		return err
	}
	if err := e.do(table.NewAddSnapshotUpdate(&s)); err != nil {
		return err
	}
	return errors.Join(
		e.do(table.NewSetSnapshotRefUpdate(table.MainBranch, id, table.BranchRef, 0, 0, 0)),
		e.do(table.NewSetSnapshotRefUpdate(ownTag, id, table.TagRef, 0, 0, 0)),
	)
}

// summary returns the properties of a snapshot. The cursor is one of them, so it is stored in the same step as the
// rows.
// Invariant 2
func (w *commit) summary(e *edition, totals iceberg.Properties, heads bool) (*table.Summary, error) {
	op := table.OpAppend
	switch removes := len(e.t.Removed)+len(e.t.AddedDeletes) > 0; {
	case removes && len(e.t.Added) > 0:
		op = table.OpOverwrite
	case removes:
		op = table.OpDelete
	}
	props := iceberg.Properties{propCommit: w.spec.ID, propManifest: w.spec.Manifest, "engine-name": "penstock"}
	for name, text := range w.spec.Properties {
		props[propPrefix+name] = text
	}
	maps.Copy(props, totals)
	if e.shared {
		props[propNumber] = strconv.FormatInt(w.number, 10)
	}
	if heads {
		text, err := json.Marshal(w.snapshots)
		if err != nil {
			return nil, err
		}
		props[propTables] = string(text)
	}
	return &table.Summary{Operation: op, Properties: props}, nil
}
