//go:build iceberg

package iceberg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load/parquet"
)

// files gives access to the files of the lake. Engines write the location of the same file in several forms. The method
// Name understands all of them.
type files struct{ parquet.Files }

// Name implements [parquet.Files]. Hadoop and Spark write file:///x as file:/x, and often s3a for s3.
func (f files) Name(location string) (string, bool) {
	switch scheme, path, _ := strings.Cut(location, ":"); {
	case scheme == "s3a" || scheme == "s3n":
		location = "s3:" + path
	case scheme == "file" && strings.HasPrefix(path, "//localhost/"):
		location = "file:" + "//" + strings.TrimPrefix(path, "//localhost")
	case scheme == "file" && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//"):
		location = "file:" + "//" + path
	}
	return f.Files.Name(location)
}

// metadata reads a metadata file.
func (f files) metadata(ctx context.Context, location string) (table.Metadata, error) {
	text, err := f.read(ctx, location)
	if err != nil {
		return nil, err
	}
	meta, err := table.ParseMetadataBytes(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", location, err)
	}
	return meta, nil
}

var errOutside = errors.New("not in the warehouse")

func (f files) read(ctx context.Context, location string) ([]byte, error) {
	name, ok := f.Name(location)
	if !ok {
		return nil, fmt.Errorf("read %s: %w", location, errOutside)
	}
	text, err := f.Read(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", location, err)
	}
	return text, nil
}

// Named lists the files that the catalog needs: all metadata files, all manifest lists, and some of the Iceberg
// manifests. These are the manifests of penstock's oldest snapshot and of tagged snapshots. Later manifests need not be
// listed, because their names begin with a number above Names.Upto. Such files are never removed as unused.
func (c *catalog) Named(ctx context.Context, stream string) (map[string]parquet.Names, error) {
	h, err := c.headOf(ctx, stream, "")
	if err != nil || h.at == "" {
		return nil, err
	}
	at, err := c.backend.locate(ctx, slices.Collect(maps.Keys(h.tables))...)
	if err != nil {
		return nil, err
	}
	out := map[string]parquet.Names{}
	for name := range h.tables {
		if at[name] == "" {
			continue // another program has dropped the table
		}
		meta, err := c.load(ctx, name, at[name])
		if err != nil {
			return nil, err
		}
		folder, _ := c.files.Name(meta.Location())
		if out[folder], err = c.named(ctx, at[name], meta); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *catalog) named(ctx context.Context, at string, meta table.Metadata) (out parquet.Names, err error) {
	add := func(location string) {
		if name, ok := c.files.Name(location); ok {
			out.Files = append(out.Files, name)
		}
	}
	add(at)
	for log := range meta.PreviousFiles() {
		add(log.MetadataFile)
	}
	pinned := map[int64]bool{}
	for name, ref := range meta.Refs() {
		if tagged(name) {
			pinned[ref.SnapshotID] = true
		}
	}
	oldest := true
	for _, s := range meta.Snapshots() {
		add(s.ManifestList)
		says := summaryOf(&s)
		first := oldest && !pinned[s.SnapshotID] && says[propCommit] != ""
		if first {
			oldest = false
			out.Upto, _ = strconv.ParseInt(says[propNumber], 10, 64) // 0 if missing
		}
		if !first && !pinned[s.SnapshotID] {
			continue
		}
		if err := c.addFiles(ctx, s, pinned[s.SnapshotID], add); err != nil {
			return out, err
		}
	}
	return out, nil
}

// addFiles calls add() with the location of each manifest of a snapshot. If the parameter `data` is true, it also calls
// add() with the location of each data file.
func (c *catalog) addFiles(ctx context.Context, s table.Snapshot, data bool, add func(location string)) error {
	list, err := c.list(ctx, s)
	if err != nil {
		return err
	}
	for _, m := range list {
		add(m.FilePath())
		if !data {
			continue
		}
		text, err := c.files.read(ctx, m.FilePath())
		if err != nil {
			return err
		}
		entries, err := iceberg.ReadManifest(m, bytes.NewReader(text), true)
		if err != nil {
			return fmt.Errorf("read %s: %w", m.FilePath(), err)
		}
		for _, e := range entries {
			add(e.DataFile().FilePath())
		}
	}
	return nil
}
