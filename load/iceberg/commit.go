//go:build iceberg

package iceberg

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock-data/penstock/load/parquet"
)

// commit is one commit of a stream in the making.
type commit struct {
	*catalog
	of        parquet.Commit
	snapshots map[string]int64 // of the tables, by name
	made      map[string]known
}

// follow writes what becomes of a table. The one that heads the stream comes last.
func (w *commit) follow(ctx context.Context, e *edition, heads bool) error {
	if e.base == nil || heads || len(e.t.Added)+len(e.t.Removed) > 0 {
		if err := w.snapshot(ctx, e, heads); err != nil {
			return err
		}
	} else {
		w.snapshots[e.t.Name] = e.base.CurrentSnapshot().SnapshotID
	}
	if err := w.expire(e); err != nil {
		return err
	}
	if !e.changed {
		return nil
	}
	meta, err := e.b.Build()
	if err != nil {
		return err
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s/metadata/%08d-%s.metadata.json", e.t.Folder, w.of.Sequence, uuid.New())
	if err := w.files.Write(ctx, name, text); err != nil {
		return err
	}
	e.to = w.files.Location(name)
	if w.made == nil {
		w.made = map[string]known{}
	}
	w.made[e.t.Name] = known{e.to, meta}
	return nil
}

// snapshot adds the snapshot of the commit to a table.
func (w *commit) snapshot(ctx context.Context, e *edition, heads bool) error {
	id := rand.Int64N(math.MaxInt64-1) + 1
	s := table.Snapshot{SnapshotID: id, SequenceNumber: 1, TimestampMs: time.Now().UnixMilli()}
	var parent *table.Snapshot
	if e.base != nil {
		s.SequenceNumber = e.base.LastSequenceNumber() + 1
		s.TimestampMs = max(s.TimestampMs, e.base.LastUpdatedMillis())
		if parent = e.base.CurrentSnapshot(); parent != nil {
			s.ParentSnapshotID = &parent.SnapshotID
		}
	}
	schema := e.b.CurrentSchema()
	s.SchemaID = &schema.ID
	list, totals, err := w.manifestsOf(ctx, e, parent, id)
	if err != nil {
		return err
	}
	if s.ManifestList, err = w.writeList(ctx, e, s, list); err != nil {
		return err
	}
	w.snapshots[e.t.Name] = id
	if s.Summary, err = w.summary(e, totals, heads); err != nil {
		return err
	}
	if err := e.do(table.NewAddSnapshotUpdate(&s)); err != nil {
		return err
	}
	return e.do(table.NewSetSnapshotRefUpdate(table.MainBranch, id, table.BranchRef, 0, 0, 0))
}

// summary is what a snapshot says of itself. // Invariant 2
func (w *commit) summary(e *edition, totals iceberg.Properties, heads bool) (*table.Summary, error) {
	op := table.OpAppend
	switch {
	case len(e.t.Removed) > 0 && len(e.t.Added) > 0:
		op = table.OpOverwrite
	case len(e.t.Removed) > 0:
		op = table.OpDelete
	}
	props := iceberg.Properties{sayCommit: w.of.ID, sayManifest: w.of.Manifest, "engine-name": "penstock"}
	for name, text := range w.of.Says {
		props[sayPrefix+name] = text
	}
	maps.Copy(props, totals)
	if heads {
		text, err := json.Marshal(w.snapshots)
		if err != nil {
			return nil, err
		}
		props[sayTables] = string(text)
	}
	return &table.Summary{Operation: op, Properties: props}, nil
}

// expire takes out snapshots that no commit needs which is kept: of each of
// those it needs the last one up to then.
func (w *commit) expire(e *edition) error {
	if e.base == nil {
		return nil
	}
	needed := map[int64]bool{}
	all := e.base.Snapshots()
	for _, kept := range w.of.Kept {
		last := int64(-1)
		for _, s := range all {
			if numberOf(s) <= kept {
				last = s.SnapshotID
			}
		}
		needed[last] = true
	}
	var gone []int64
	for _, s := range all {
		if !needed[s.SnapshotID] && s.SnapshotID != w.snapshots[e.t.Name] {
			gone = append(gone, s.SnapshotID)
		}
	}
	if gone == nil {
		return nil
	}
	return e.do(table.NewRemoveSnapshotsUpdate(gone, false))
}

// numberOf is the number of the commit that made a snapshot.
func numberOf(s table.Snapshot) int64 {
	n, err := strconv.ParseInt(saysOf(&s)[saySequence], 10, 64)
	if err != nil {
		return math.MaxInt64 // somebody else's
	}
	return n
}
