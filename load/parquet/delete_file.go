package parquet

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/partition"
)

// The columns of a delete file, with their field IDs in Iceberg.
const (
	deletedPath, deletedPathID = "file_path", 2147483546
	deletedPos, deletedPosID   = "pos", 2147483545
)

func deleteSchema() *arrow.Schema {
	return arrow.NewSchema([]arrow.Field{
		numbered(arrow.Field{Name: deletedPath, Type: arrow.BinaryTypes.String}, deletedPathID),
		numbered(arrow.Field{Name: deletedPos, Type: arrow.PrimitiveTypes.Int64}, deletedPosID),
	}, nil)
}

// writeDeletes writes a delete file for each file whose deleted rows have changed. A delete file has the positions of only
// one data file, because the native reader of Polars cannot read other delete files.
func (x *builder) writeDeletes(ctx context.Context) error {
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(x.lake.o.Writers)
	for _, s := range x.next.Segments {
		for name, f := range s.Files {
			if len(f.Deleted) == 0 || f.Deletes != nil {
				continue
			}
			part := ""
			if s.Table == name {
				part = s.Part
			}
			work.Go(func() (err error) {
				if f.Deletes, err = x.writePositions(ctx, x.next.table(name), part, f); err != nil {
					err = fmt.Errorf("write deleted rows of %s: %w", name, err)
				}
				return err
			})
		}
	}
	return work.Wait()
}

func (x *builder) writePositions(ctx context.Context, t *table, part string, f *file) (*file, error) {
	name := filepath.Join(locationName(partition.Folder(part)), fileName(x.next.Sequence))
	out, err := x.draft.create(t, name)
	if err != nil {
		return nil, err
	}
	of := &table{schema: deleteSchema()}
	w := &writer{t: of, f: out, sum: xxh3.New(), file: &file{Name: name, store: x.folder.store}, bounds: newBounds(of)}
	w.enc = encode.New(of.schema, w, &x.lake.pool)
	location := x.draft.(*tableGeneration).store.bucket.location(f)
	if err := f.writeDeleted(w, location); err != nil {
		w.abandon()
		return nil, err
	}
	d, err := w.finish(ctx)
	if err != nil {
		return nil, err
	}
	for i := range d.ranges {
		if r := &d.ranges[i]; r.Number == deletedPathID { // readers compare the whole path
			r.Low, r.High = []byte(location), []byte(location)
		}
	}
	return d, nil
}

// location returns the address of a data file, as the catalog writes it.
func (b *bucket) location(f *file) string { return b.Location(strings.TrimPrefix(f.key(), b.prefix)) }

func (f *file) writeDeleted(w *writer, location string) error {
	for some := range slices.Chunk(f.Deleted, encode.RowGroupRows) {
		paths, places := array.NewStringBuilder(memory.DefaultAllocator), array.NewInt64Builder(memory.DefaultAllocator)
		defer paths.Release()
		defer places.Release()
		for _, p := range some {
			paths.Append(location)
			places.Append(int64(p))
		}
		columns := []arrow.Array{paths.NewArray(), places.NewArray()}
		err := w.add(columns, len(some))
		release(columns)
		if err != nil {
			return err
		}
	}
	return nil
}

// deletes reports whether one of the files has deleted rows.
func (m *manifest) deletes() bool {
	return slices.ContainsFunc(m.Segments, func(s *segment) bool {
		for _, f := range s.Files {
			if len(f.Deleted) > 0 {
				return true
			}
		}
		return false
	})
}

// acceptDeletes makes the commit write the delete files again that are missing or were changed. If a data file was
// changed, the positions of its deleted rows are no longer right. So acceptDeletes handles this file as missing. It
// changes c accordingly, and returns what is done about the delete files.
func (x *builder) acceptDeletes(t *table, c condition) (changes []load.Change) {
	for i, s := range x.next.Segments {
		f := s.Files[t.Name]
		if f == nil || f.Deletes == nil {
			continue
		}
		name := f.Deletes.Name
		if _, changed := c.changed[name]; changed || c.lost[name] {
			again := *f
			again.Deletes = nil
			x.next.Segments[i] = s.with(t.Name, &again)
			delete(c.changed, name)
			delete(c.lost, name)
			changes = append(changes, load.Change{At: x.stamp, Table: t.Name, Action: load.ActionRestore, Reason: "delete file " + name + " is missing or was changed; it is written again"})
		}
		if _, changed := c.changed[f.Name]; changed {
			delete(c.changed, f.Name)
			c.lost[f.Name] = true
		}
	}
	return changes
}
