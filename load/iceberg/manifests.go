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
	spec int
	fileGroup
}

// fileGroup is what the files of a manifest have in common.
type fileGroup struct {
	source  string // "": the table is not partitioned by source
	content iceberg.ManifestContent
}

func (r newEntries) add(spec int, of fileGroup, e iceberg.ManifestEntry) {
	b := entryGroup{spec, of}
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

// manifestsOf returns the manifests of a new snapshot. A manifest lists data files or delete files of one source. It
// stays unchanged if the commit removes none of the files that it lists, and if this source has fewer than manyManifests
// manifests.
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
		if err := w.enter(e, anew, f, id, iceberg.EntryContentData); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range e.t.AddedDeletes {
		if err := w.enter(e, anew, f, id, iceberg.EntryContentPosDeletes); err != nil {
			return nil, nil, err
		}
	}
	out = kept
	for of, entries := range anew {
		m, err := w.writeManifest(ctx, e, of, id, entries)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, m)
	}
	return out, totals(e), nil
}

// enter adds an entry for a new file.
func (w *commit) enter(e *edition, anew newEntries, f parquet.DataFile, id int64, content iceberg.ManifestEntryContent) error {
	spec, err := e.useSpec(f.PartitionBy) // the files of another source may have another partitioning
	if err != nil {
		return err
	}
	part, err := e.partitionOf(spec, f)
	if err != nil {
		return err
	}
	b, err := iceberg.NewDataFileBuilder(*spec, content, w.files.Location(f.Name), iceberg.ParquetFile, part, nil, nil, f.Rows, f.Size)
	if err != nil {
		return err
	}
	addRanges(b, f)
	of := fileGroup{f.Source, iceberg.ManifestContentData}
	if content != iceberg.EntryContentData {
		of.content = iceberg.ManifestContentDeletes
	} else if f.Sorted && e.order != 0 {
		b.SortOrderID(e.order)
	}
	anew.add(spec.ID(), of, iceberg.NewManifestEntry(iceberg.EntryStatusADDED, &id, nil, nil, b.Build()))
	return nil
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
// the parameter `anew`. The entries of removed files stay in a manifest for one commit, marked as deleted, except those
// of an [edition.orphaned] spec. If a removed file is in no manifest, carry returns a [load.ForeignChange].
func (w *commit) carry(ctx context.Context, e *edition, list []iceberg.ManifestFile, id int64, anew newEntries) (kept []iceberg.ManifestFile, err error) {
	gone, losing := map[string]bool{}, map[fileGroup]bool{}
	for _, f := range e.t.Removed {
		gone[w.files.Location(f.Name)], losing[fileGroup{f.Source, iceberg.ManifestContentData}] = true, true
	}
	for _, f := range e.t.RemovedDeletes {
		gone[w.files.Location(f.Name)], losing[fileGroup{f.Source, iceberg.ManifestContentDeletes}] = true, true
	}
	groups, count := make([]fileGroup, len(list)), map[fileGroup]int{}
	for i, m := range list {
		source, err := e.sourceOf(m)
		if err != nil {
			return nil, err
		}
		groups[i] = fileGroup{source, m.ManifestContent()}
		count[groups[i]]++
	}
	left := len(gone)
	for i, m := range list {
		of := groups[i]
		if !m.HasAddedFiles() && !m.HasExistingFiles() {
			continue
		}
		if !losing[of] && count[of] < manyManifests {
			kept = append(kept, m)
			continue
		}
		standing, n, err := w.successors(ctx, m, id, gone)
		if err != nil {
			return nil, err
		}
		if left -= n; n == 0 && count[of] < manyManifests {
			kept = append(kept, m)
			continue
		}
		spec := int(m.PartitionSpecID())
		orphaned, err := e.orphaned(spec)
		if err != nil {
			return nil, err
		}
		for _, entry := range standing {
			if !orphaned || entry.Status() != iceberg.EntryStatusDELETED {
				anew.add(spec, of, entry)
			}
		}
	}
	if left > 0 {
		return nil, &load.ForeignChange{Table: e.t.Table, Diff: []string{fmt.Sprintf("%d of its files are missing in its snapshot", left)}}
	}
	return kept, nil
}

// orphaned reports whether a partition spec has a field whose column no longer exists. If the current snapshot has a
// manifest of such a spec, the Iceberg extension of DuckDB 1.5.5 ends its process.
func (e *edition) orphaned(spec int) (bool, error) {
	of, err := e.b.GetSpecByID(spec)
	if err != nil {
		return false, err
	}
	for _, f := range of.Fields() {
		if _, ok := e.b.CurrentSchema().FindFieldByID(f.SourceID()); !ok {
			return true, nil
		}
	}
	return false, nil
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

func (w *commit) writeManifest(ctx context.Context, e *edition, of entryGroup, id int64, entries []iceberg.ManifestEntry) (iceberg.ManifestFile, error) {
	spec, err := e.b.GetSpecByID(of.spec)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s/metadata/%08d-%s-m%d.avro", e.t.Folder, w.number, uuid.New(), of.spec)
	var text bytes.Buffer
	a, err := iceberg.NewManifestWriter(formatVersion, &text, *spec, e.b.CurrentSchema(), id, iceberg.WithManifestWriterContent(of.content))
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	add := map[iceberg.ManifestEntryStatus]func(iceberg.ManifestEntry) error{
		iceberg.EntryStatusADDED: a.Add, iceberg.EntryStatusEXISTING: a.Existing, iceberg.EntryStatusDELETED: a.Delete,
	}
	for _, entry := range entries {
		if err := add[entry.Status()](entry); err != nil {
			return nil, fmt.Errorf("write manifest: %w", err)
		}
	}
	if err := a.Close(); err != nil { // the size of the manifest is known only now
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	m, err := a.ToManifestFile(w.files.Location(name), int64(text.Len()))
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
	out := iceberg.Properties{"total-equality-deletes": "0"}
	count := func(what string, change int64) {
		n, _ := strconv.ParseInt(before[what], 10, 64)
		out[what] = strconv.FormatInt(n+change, 10)
	}
	sum := func(files []parquet.DataFile) (rows, bytes int64) {
		for _, f := range files {
			rows, bytes = rows+f.Rows, bytes+f.Size
		}
		return rows, bytes
	}
	rows, bytes := sum(e.t.Added)
	gone, freed := sum(e.t.Removed)
	deletes, more := sum(e.t.AddedDeletes)
	dropped, less := sum(e.t.RemovedDeletes)
	files := func(some []parquet.DataFile) int64 { return int64(len(some)) }
	count("total-data-files", files(e.t.Added)-files(e.t.Removed))
	count("total-delete-files", files(e.t.AddedDeletes)-files(e.t.RemovedDeletes))
	count("total-position-deletes", deletes-dropped)
	count("total-records", rows-gone)
	count("total-files-size", bytes+more-freed-less)
	for what, n := range map[string]int64{
		"added-data-files": files(e.t.Added), "added-records": rows, "added-files-size": bytes + more,
		"deleted-data-files": files(e.t.Removed), "deleted-records": gone, "removed-files-size": freed + less,
		"added-delete-files": files(e.t.AddedDeletes), "added-position-delete-files": files(e.t.AddedDeletes), "added-position-deletes": deletes,
		"removed-delete-files": files(e.t.RemovedDeletes), "removed-position-delete-files": files(e.t.RemovedDeletes), "removed-position-deletes": dropped,
	} {
		if n > 0 {
			out[what] = strconv.FormatInt(n, 10)
		}
	}
	return out
}
