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
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/schemas"
)

const manyManifests = 16

func (c *catalog) list(ctx context.Context, s table.Snapshot) ([]iceberg.ManifestFile, error) {
	text, err := c.files.read(ctx, s.ManifestList)
	if err != nil {
		return nil, err
	}
	list, err := iceberg.ReadManifestList(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", s.ManifestList, err)
	}
	return list, nil
}

// newEntries has the entries of the manifests that a commit writes. Each manifest has entries of only one source. So a
// commit leaves the manifests of other sources unchanged. Exception: if another source has manyManifests manifests or
// more, the commit merges them.
type newEntries map[entryGroup][]iceberg.ManifestEntry

type entryGroup struct {
	spec   int
	source string // "": the table is not partitioned by source
}

func (r newEntries) add(spec int, source string, e iceberg.ManifestEntry) {
	b := entryGroup{spec, source}
	r[b] = append(r[b], e)
}

func (e *edition) sourceOf(m iceberg.ManifestFile) (string, error) {
	spec, err := e.b.GetSpecByID(int(m.PartitionSpecID()))
	if err != nil {
		return "", err
	}
	of := m.Partitions()
	if spec.NumFields() == 0 || spec.Field(0).Name != schemas.ColSource || len(of) == 0 || of[0].LowerBound == nil {
		return "", nil
	}
	return string(*of[0].LowerBound), nil
}

// manifestsOf returns the manifests of a new snapshot. A manifest lists files of one source. It stays unchanged if the
// commit removes none of the files that it lists, and if this source has fewer than manyManifests manifests.
func (w *commit) manifestsOf(ctx context.Context, e *edition, id int64) (out []iceberg.ManifestFile, says iceberg.Properties, err error) {
	var list []iceberg.ManifestFile
	if e.last != nil {
		if list, err = w.list(ctx, *e.last); err != nil {
			return nil, nil, err
		}
	}
	anew := newEntries{}
	kept, err := w.carry(ctx, e, list, id, anew)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range e.t.Added {
		spec, err := e.useSpec(f.PartitionBy) // the files of another source may have another partitioning
		if err != nil {
			return nil, nil, err
		}
		part, err := e.partitionOf(spec, f)
		if err != nil {
			return nil, nil, err
		}
		b, err := iceberg.NewDataFileBuilder(*spec, iceberg.EntryContentData, w.files.Location(f.Name), iceberg.ParquetFile, part, nil, nil, f.Rows, f.Size)
		if err != nil {
			return nil, nil, err
		}
		addRanges(b, f)
		if f.Sorted && e.order != 0 {
			b.SortOrderID(e.order)
		}
		anew.add(spec.ID(), f.Source, iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, b.Build()))
	}
	out = kept
	for of, entries := range anew {
		m, err := w.writeManifest(ctx, e, of.spec, id, entries)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, m)
	}
	return out, totals(e), nil
}

func addRanges(b *iceberg.DataFileBuilder, f parquet.DataFile) {
	rows, nulls, sizes := map[int]int64{}, map[int]int64{}, map[int]int64{}
	low, high := map[int][]byte{}, map[int][]byte{}
	for _, r := range f.Ranges {
		rows[r.Number], nulls[r.Number], sizes[r.Number] = f.Rows, r.Nulls, r.Size
		if r.Low != nil {
			low[r.Number] = r.Low
		}
		if r.High != nil {
			high[r.Number] = r.High
		}
	}
	b.ColumnSizes(sizes).ValueCounts(rows).NullValueCounts(nulls).LowerBoundValues(low).UpperBoundValues(high)
}

// carry returns the manifests that stay unchanged. The other manifests are written again: carry adds their entries to
// the parameter `anew`, except the entries of removed files. If a removed file is in no manifest, carry returns a
// [load.ForeignChange].
func (w *commit) carry(ctx context.Context, e *edition, list []iceberg.ManifestFile, id int64, anew newEntries) (kept []iceberg.ManifestFile, err error) {
	gone, losing := map[string]bool{}, map[string]bool{}
	for _, f := range e.t.Removed {
		gone[w.files.Location(f.Name)], losing[f.Source] = true, true
	}
	sources, count := make([]string, len(list)), map[string]int{}
	for i, m := range list {
		if sources[i], err = e.sourceOf(m); err != nil {
			return nil, err
		}
		count[sources[i]]++
	}
	left := len(gone)
	for i, m := range list {
		source := sources[i]
		if !m.HasAddedFiles() && !m.HasExistingFiles() {
			continue
		}
		if !losing[source] && count[source] < manyManifests {
			kept = append(kept, m)
			continue
		}
		standing, n, err := w.successors(ctx, m, id, gone)
		if err != nil {
			return nil, err
		}
		if left -= n; n == 0 && count[source] < manyManifests {
			kept = append(kept, m)
			continue
		}
		for _, entry := range standing {
			anew.add(int(m.PartitionSpecID()), source, entry)
		}
	}
	if left > 0 {
		return nil, &load.ForeignChange{Table: e.t.Table, Diff: []string{fmt.Sprintf("%d of its files are missing in its snapshot", left)}}
	}
	return kept, nil
}

func (w *commit) successors(ctx context.Context, m iceberg.ManifestFile, id int64, gone map[string]bool) (out []iceberg.ManifestEntry, n int, err error) {
	text, err := w.files.read(ctx, m.FilePath())
	if err != nil {
		return nil, 0, err
	}
	entries, err := iceberg.ReadManifest(m, bytes.NewReader(text), true)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", m.FilePath(), err)
	}
	for _, entry := range entries {
		seq, status, by := entry.SequenceNum(), iceberg.EntryStatusEXISTING, entry.SnapshotID()
		if gone[entry.DataFile().FilePath()] {
			n++
			status, by = iceberg.EntryStatusDELETED, id
		}
		out = append(out, iceberg.NewManifestEntry(status, &by, &seq, entry.FileSequenceNum(), entry.DataFile()))
	}
	return out, n, nil
}

func (w *commit) writeManifest(ctx context.Context, e *edition, of int, id int64, entries []iceberg.ManifestEntry) (iceberg.ManifestFile, error) {
	spec, err := e.b.GetSpecByID(of)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s/metadata/%08d-%s-m%d.avro", e.t.Folder, w.number, uuid.New(), of)
	var text bytes.Buffer
	m, err := iceberg.WriteManifest(w.files.Location(name), &text, formatVersion, *spec, e.b.CurrentSchema(), id, entries)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return m, w.files.Write(ctx, name, text.Bytes())
}

func (w *commit) writeList(ctx context.Context, e *edition, s table.Snapshot, list []iceberg.ManifestFile) (string, error) {
	name := fmt.Sprintf("%s/metadata/%08d-snap-%d-%s.avro", e.t.Folder, w.number, s.SnapshotID, uuid.New())
	var text bytes.Buffer
	err := iceberg.WriteManifestList(formatVersion, &text, s.SnapshotID, s.ParentSnapshotID, &s.SequenceNumber, 0, list)
	if err != nil {
		return "", fmt.Errorf("write list of manifests: %w", err)
	}
	return w.files.Location(name), w.files.Write(ctx, name, text.Bytes())
}

func totals(e *edition) iceberg.Properties {
	before := summaryOf(e.last)
	out := iceberg.Properties{"total-delete-files": "0", "total-position-deletes": "0", "total-equality-deletes": "0"}
	count := func(what string, change int64) {
		n, _ := strconv.ParseInt(before[what], 10, 64)
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
