//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"
	"github.com/google/uuid"

	"github.com/penstock-data/penstock/load"
)

// manyManifests is how many a snapshot names before they become one.
const manyManifests = 16

// list reads the manifests of a snapshot.
func (c *catalog) list(ctx context.Context, s table.Snapshot) ([]iceberg.ManifestFile, error) {
	text, err := c.read(ctx, s.ManifestList)
	if err != nil {
		return nil, err
	}
	list, err := iceberg.ReadManifestList(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.ManifestList, err)
	}
	return list, nil
}

func (c *catalog) read(ctx context.Context, location string) ([]byte, error) {
	name, ok := c.files.Name(location)
	if !ok {
		return nil, fmt.Errorf("%s is not in the warehouse", location)
	}
	return c.files.Read(ctx, name)
}

// rewriting gathers entries of manifests, by the spec that they follow.
type rewriting map[int][]iceberg.ManifestEntry

// manifestsOf are those of a table's next snapshot, and what its summary says of
// them. Manifests whose files all stand stay as they are.
func (w *commit) manifestsOf(ctx context.Context, e *edition, parent *table.Snapshot, id int64) (out []iceberg.ManifestFile, says iceberg.Properties, err error) {
	var list []iceberg.ManifestFile
	if parent != nil {
		if list, err = w.list(ctx, *parent); err != nil {
			return nil, nil, err
		}
	}
	spec, err := e.b.CurrentSpec()
	if err != nil {
		return nil, nil, err
	}
	anew := rewriting{}
	kept, err := w.carry(ctx, e, list, id, anew)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range e.t.Added {
		b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentData, w.files.Location(f.Name), iceberg.ParquetFile, partition(*spec, f), nil, nil, f.Rows, f.Size)
		if err != nil {
			return nil, nil, err
		}
		anew[spec.ID()] = append(anew[spec.ID()], iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, b.Build()))
	}
	out = kept
	for of, entries := range anew {
		m, err := w.writeManifest(ctx, e, of, id, entries)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, m)
	}
	return out, totals(e, parent), nil
}

// carry sorts the manifests there are into those that stay and entries that are
// written anew.
func (w *commit) carry(ctx context.Context, e *edition, list []iceberg.ManifestFile, id int64, anew rewriting) (kept []iceberg.ManifestFile, err error) {
	gone := map[string]bool{}
	for _, f := range e.t.Removed {
		gone[w.files.Location(f.Name)] = true
	}
	left := len(gone)
	for _, m := range list {
		if !m.HasAddedFiles() && !m.HasExistingFiles() {
			continue
		}
		if len(gone) == 0 && len(list) < manyManifests {
			kept = append(kept, m)
			continue
		}
		text, err := w.read(ctx, m.FilePath())
		if err != nil {
			return nil, err
		}
		entries, err := iceberg.ReadManifest(m, bytes.NewReader(text), true)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", m.FilePath(), err)
		}
		n := 0
		var standing []iceberg.ManifestEntry
		for _, entry := range entries {
			seq, status, by := entry.SequenceNum(), iceberg.EntryStatusEXISTING, entry.SnapshotID()
			if gone[entry.DataFile().FilePath()] {
				n++
				status, by = iceberg.EntryStatusDELETED, id
			}
			standing = append(standing, iceberg.NewManifestEntry(status, &by, &seq, entry.FileSequenceNum(), entry.DataFile()))
		}
		if left -= n; n == 0 && len(list) < manyManifests {
			kept = append(kept, m)
			continue
		}
		spec := int(m.PartitionSpecID())
		anew[spec] = append(anew[spec], standing...)
	}
	if left > 0 {
		return nil, &load.ForeignChange{Table: e.t.Table, Diff: []string{fmt.Sprintf("%d of its files are not in its snapshot", left)}}
	}
	return kept, nil
}

// writeManifest writes entries of files of one spec.
func (w *commit) writeManifest(ctx context.Context, e *edition, of int, id int64, entries []iceberg.ManifestEntry) (iceberg.ManifestFile, error) {
	spec, err := e.b.GetSpecByID(of)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s/metadata/%08d-%s-m%d.avro", e.t.Folder, w.of.Sequence, uuid.New(), of)
	var text bytes.Buffer
	m, err := iceberg.WriteManifest(w.files.Location(name), &text, formatVersion, *spec, e.b.CurrentSchema(), id, entries)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return m, w.files.Write(ctx, name, text.Bytes())
}

// writeList writes the list of a snapshot's manifests.
func (w *commit) writeList(ctx context.Context, e *edition, s table.Snapshot, list []iceberg.ManifestFile) (string, error) {
	name := fmt.Sprintf("%s/metadata/%08d-snap-%d-%s.avro", e.t.Folder, w.of.Sequence, s.SnapshotID, uuid.New())
	var text bytes.Buffer
	err := iceberg.WriteManifestList(formatVersion, &text, s.SnapshotID, s.ParentSnapshotID, &s.SequenceNumber, 0, list)
	if err != nil {
		return "", fmt.Errorf("write list of manifests: %w", err)
	}
	return w.files.Location(name), w.files.Write(ctx, name, text.Bytes())
}

// totals are the counts that readers expect in a summary.
func totals(e *edition, parent *table.Snapshot) iceberg.Properties {
	before := saysOf(parent)
	out := iceberg.Properties{"total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0"}
	count := func(what string, change int64) {
		n, _ := strconv.ParseInt(before[what], 10, 64) // none before: 0
		out[what] = strconv.FormatInt(n+change, 10)
	}
	var rows, bytes, gone, freed int64
	for _, f := range e.t.Added {
		rows, bytes = rows+f.Rows, bytes+f.Size
	}
	for _, f := range e.t.Removed {
		gone, freed = gone+f.Rows, freed+f.Size
	}
	count("total-data-files", int64(len(e.t.Added)-len(e.t.Removed)))
	count("total-records", rows-gone)
	count("total-files-size", bytes-freed)
	for what, n := range map[string]int64{
		"added-data-files": int64(len(e.t.Added)), "added-records": rows, "added-files-size": bytes,
		"deleted-data-files": int64(len(e.t.Removed)), "deleted-records": gone, "removed-files-size": freed,
	} {
		if n > 0 {
			out[what] = strconv.FormatInt(n, 10)
		}
	}
	return out
}
