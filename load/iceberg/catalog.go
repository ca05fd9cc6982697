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
	"strings"
	"sync"
	"time"

	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
)

// Properties in the summary of a snapshot, besides those of [parquet.Commit].Properties. The head table of a stream is
// the table with its cursor: see [parquet.HeadTable]. Every commit changes it.
const (
	propPrefix     = "penstock."
	propStream     = propPrefix + "stream" // also a property of the table
	propCommit     = propPrefix + "commit"
	propSequence   = propPrefix + "sequence"
	propManifest   = propPrefix + "manifest" // name of the manifest that lists the stream's files
	propTables     = propPrefix + "tables"   // only in the head table: for each table of the stream, the ID of its current snapshot, as JSON
	propSourceName = propPrefix + "source"   // only in shared tables: the source that committed
	propNumber     = propPrefix + "number"   // only in shared tables: the commit's number among the commits of all sources; the names of the commit's files begin with this number
)

type catalog struct {
	files      files
	backend    backend
	namespaces namespaces
	step       func(name string) error
	claimWait  time.Duration // see [claimWait]

	mu          sync.Mutex
	seen        map[string]known         // metadata by table name, as last read or written
	streams     map[string]string        // stream of each head table, by table name
	claims      map[string]time.Time     // when this process first saw each claim of another process; a claim reserves a stream for one commit: see [commit.claim]
	commitLocks map[string]chan struct{} // by stream; a commit holds the lock while it is in progress in this process
}

type known struct {
	at   string
	meta table.Metadata
}

var _ parquet.Catalog = (*catalog)(nil)

// Close implements [parquet.Catalog].
func (c *catalog) Close() error { return c.backend.Close() }

// Streams implements [parquet.Catalog].
func (c *catalog) Streams(ctx context.Context) ([]string, error) {
	all, err := c.backend.names(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range all {
		if !strings.HasPrefix(name, headPrefix) {
			continue
		}
		stream, err := c.streamOf(ctx, name)
		if err != nil {
			return nil, err
		}
		if stream != "" {
			out = append(out, stream)
		}
	}
	return out, nil
}

// streamOf returns the stream of a head table, or "" if the table no longer exists. The name of the table cannot be
// converted back to the name of the stream, so streamOf reads it from the table's properties. It does this only once
// per table.
func (c *catalog) streamOf(ctx context.Context, name string) (string, error) {
	c.mu.Lock()
	stream := c.streams[name]
	c.mu.Unlock()
	if stream != "" {
		return stream, nil
	}
	err := c.reread(ctx, name, func(at string) error {
		if at == "" {
			return nil
		}
		meta, err := c.load(ctx, name, at)
		if err != nil {
			return err
		}
		if stream = meta.Properties()[propStream]; stream == "" {
			return &load.ForeignChange{Table: name, Diff: []string{"it has no property " + propStream}}
		}
		return nil
	})
	if err != nil || stream == "" {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[name] = stream
	return stream, nil
}

// Identifier implements [parquet.Catalog].
func (c *catalog) Identifier(table string) (namespace, name string) {
	return c.namespaces.identifier(table)
}

// Locate implements [parquet.Catalog].
func (c *catalog) Locate(ctx context.Context, name string) (string, error) {
	return c.locate(ctx, name)
}

func (c *catalog) locate(ctx context.Context, name string) (string, error) {
	at, err := c.backend.locate(ctx, name)
	return at[name], err
}

func (c *catalog) load(ctx context.Context, name, at string) (table.Metadata, error) {
	c.mu.Lock()
	k := c.seen[name]
	c.mu.Unlock()
	if k.at == at {
		return k.meta, nil
	}
	meta, err := c.backend.metadata(ctx, name, at)
	if errors.Is(err, errOutside) {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"its metadata is at " + at + ", outside of the warehouse"}}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"its metadata " + at + " is missing"}}
	}
	if err != nil {
		return nil, err
	}
	c.learn(name, at, meta)
	return meta, nil
}

func (c *catalog) learn(name, at string, meta table.Metadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[name] = known{at, meta}
}

type head struct {
	*parquet.Head // nil: no commit yet; in shared tables, no commit of this source yet
	tables        map[string]int64
	sources       map[string]*parquet.Head // last commit of each source that shares the tables; nil: not shared
	number        int64                    // number of commits of all sources so far
	at            string                   // location of the metadata; "": the stream does not exist yet
}

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
	last := newestOwn(meta)
	if last == nil && meta.Properties()[propStream] == stream && (meta.CurrentSnapshot() == nil || claimOf(meta) != "") {
		return &head{}, nil // a process has created the table for a first commit, and has not made this commit
	}
	says := summaryOf(last)
	if says[propCommit] == "" {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"no snapshot of penstock is left in it"}}
	}
	h.number = meta.LastSequenceNumber()
	if err := json.Unmarshal([]byte(says[propTables]), &h.tables); err != nil {
		return nil, fmt.Errorf("read snapshot of %s: %w", name, err)
	}
	if says[propSourceName] == "" {
		if source == "" {
			h.Head = &parquet.Head{ID: says[propCommit], Manifest: says[propManifest]}
		}
		return h, nil
	}
	if h.sources, err = sourcesOf(meta); err != nil {
		return nil, fmt.Errorf("read properties of %s: %w", name, err)
	}
	h.Head = h.sources[source]
	return h, nil
}

func (c *catalog) headOf(ctx context.Context, stream, source string) (h *head, err error) {
	err = c.reread(ctx, parquet.HeadTable(stream), func(at string) (err error) {
		h, err = c.head(ctx, stream, source, at)
		return err
	})
	return h, err
}

// reread calls read() with the location of a table's metadata. If read() fails, later commits may have removed the
// metadata file. So reread calls it again if the location has changed.
func (c *catalog) reread(ctx context.Context, name string, read func(at string) error) error {
	for before := ""; ; {
		at, err := c.locate(ctx, name)
		if err != nil {
			return err
		}
		if err = read(at); err == nil || at == before {
			return err
		}
		before = at
	}
}

func summaryOf(s *table.Snapshot) map[string]string {
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
