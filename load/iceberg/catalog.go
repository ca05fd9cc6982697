//go:build iceberg

package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
)

// Properties of a snapshot's summary, beside those of [parquet.Commit].Says.
const (
	sayPrefix   = "penstock."
	sayCommit   = sayPrefix + "commit"   // the id of the commit
	saySequence = sayPrefix + "sequence" // its number
	sayManifest = sayPrefix + "manifest" // the file that tells what the stream holds
	sayTables   = sayPrefix + "tables"   // of the table that heads a stream: the snapshot of each of its tables, as JSON
	saySource   = sayPrefix + "source"   // whose commit it is, where sources share the tables
	sayNumber   = sayPrefix + "number"   // of all commits of the stream, where sources share the tables: that in the names of files
)

// catalog holds the commits of a lake in Iceberg tables.
type catalog struct {
	files    parquet.Files
	pointers *pointers
	step     func(name string) error

	mu    sync.Mutex
	seen  map[string]known         // metadata by table, as last read or written
	turns map[string]chan struct{} // by stream: of those in this process, one after the other
}

// known is metadata, and where it lies.
type known struct {
	at   string
	meta table.Metadata
}

var _ parquet.Catalog = (*catalog)(nil)

// Close implements [parquet.Catalog].
func (c *catalog) Close() error { return c.pointers.db.Close() }

// Streams implements [parquet.Catalog].
func (c *catalog) Streams(ctx context.Context) ([]string, error) {
	all, err := c.pointers.all(ctx)
	var out []string
	for name := range all {
		if stream, ok := strings.CutPrefix(name, parquet.HeadTable("")); ok {
			out = append(out, stream)
		}
	}
	return out, err
}

// Locate implements [parquet.Catalog].
func (c *catalog) Locate(ctx context.Context, name string) (string, error) {
	return c.pointers.of(ctx, name)
}

// load reads metadata that lies at a place.
func (c *catalog) load(ctx context.Context, name, at string) (table.Metadata, error) {
	c.mu.Lock()
	k := c.seen[name]
	c.mu.Unlock()
	if k.at == at {
		return k.meta, nil
	}
	file, ours := c.files.Name(at)
	if !ours {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"its metadata is at " + at + ", not in the warehouse"}}
	}
	text, err := c.files.Read(ctx, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"its metadata " + at + " is gone"}}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	meta, err := table.ParseMetadataBytes(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", at, err)
	}
	c.learn(name, at, meta)
	return meta, nil
}

func (c *catalog) learn(name, at string, meta table.Metadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[name] = known{at, meta}
}

// head is where a stream stands, as its head table says.
type head struct {
	*parquet.Head                          // nil: nothing was committed yet, by the source where some share the tables
	tables        map[string]int64         // the snapshots of the stream's tables, by name
	sources       map[string]*parquet.Head // of those that share them, by name; nil where they are one source's
	number        int64                    // of commits, so far
	at            string                   // "": there is no such stream
}

// head reads the head table of a stream, whose metadata lies at the place given.
func (c *catalog) head(ctx context.Context, stream, source, at string) (*head, error) {
	h := &head{at: at}
	if at == "" {
		return h, nil
	}
	name := parquet.HeadTable(stream)
	meta, err := c.load(ctx, name, at)
	if err != nil {
		return nil, err
	}
	says := saysOf(meta.CurrentSnapshot())
	if says[sayCommit] == "" {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"somebody else has written to it"}}
	}
	h.number = meta.LastSequenceNumber()
	if err := json.Unmarshal([]byte(says[sayTables]), &h.tables); err != nil {
		return nil, fmt.Errorf("read snapshot of %s: %w", name, err)
	}
	if says[saySource] == "" {
		if source == "" {
			h.Head = &parquet.Head{ID: says[sayCommit], Manifest: says[sayManifest]}
		}
		return h, nil
	}
	if h.sources, err = sourcesOf(meta); err != nil {
		return nil, fmt.Errorf("read properties of %s: %w", name, err)
	}
	h.Head = h.sources[source]
	return h, nil
}

// headOf is head as it is now.
func (c *catalog) headOf(ctx context.Context, stream, source string) (h *head, err error) {
	name, before := parquet.HeadTable(stream), ""
	for {
		at, err := c.pointers.of(ctx, name)
		if err != nil {
			return nil, err
		}
		h, err := c.head(ctx, stream, source, at)
		if err == nil || at == before {
			return h, err
		}
		before = at // others may have moved it so often since that the file is gone: it is asked once more
	}
}

// saysOf is the summary of a snapshot; nil where there is none.
func saysOf(s *table.Snapshot) map[string]string {
	if s == nil || s.Summary == nil {
		return nil
	}
	return s.Summary.Properties
}

// Sources implements [parquet.Catalog].
func (c *catalog) Sources(ctx context.Context, stream string) ([]string, error) {
	h, err := c.headOf(ctx, stream, "")
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(h.sources)), nil
}

// Head implements [parquet.Catalog].
func (c *catalog) Head(ctx context.Context, stream, source string) (*parquet.Head, error) {
	h, err := c.headOf(ctx, stream, source)
	if err != nil {
		return nil, err
	}
	return h.Head, nil
}

// Named implements [parquet.Catalog]. Of files that are older than all commits
// which are kept, those of a table's oldest snapshot are the only ones left.
func (c *catalog) Named(ctx context.Context, stream string) (map[string]parquet.Names, error) {
	h, err := c.headOf(ctx, stream, "")
	if err != nil || h.at == "" {
		return nil, err
	}
	at, err := c.pointers.all(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]parquet.Names{}
	for name := range h.tables {
		if at[name] == "" {
			continue // somebody has dropped it
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

// named are the files that the metadata of a table, which lies at the place given,
// needs.
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
	all := meta.Snapshots()
	for _, s := range all {
		add(s.ManifestList)
	}
	if len(all) == 0 {
		return out, nil
	}
	out.Upto, _ = strconv.ParseInt(saysOf(&all[0])[sayNumber], 10, 64) // none: 0
	list, err := c.list(ctx, all[0])
	for _, m := range list {
		add(m.FilePath())
	}
	return out, err
}
