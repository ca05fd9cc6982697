//go:build iceberg

package iceberg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

// Properties of a snapshot's summary, beside those of [parquet.Commit].Says.
const (
	sayPrefix   = "penstock."
	sayCommit   = sayPrefix + "commit"   // the id of the commit
	saySequence = sayPrefix + "sequence" // its number
	sayManifest = sayPrefix + "manifest" // the file that tells what the stream holds
	sayTables   = sayPrefix + "tables"   // of the table that heads a stream: the snapshot of each of its tables, as JSON
)

// catalog holds the commits of a lake in Iceberg tables.
type catalog struct {
	files    parquet.Files
	pointers *pointers
	step     func(name string) error

	mu   sync.Mutex
	seen map[string]known // metadata by table, as last read or written
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

// head is the last commit of a stream, as its head table says.
type head struct {
	*parquet.Head
	tables map[string]int64 // the snapshots of the stream's tables, by name
	at     string
	meta   table.Metadata
}

func (c *catalog) head(ctx context.Context, stream string) (*head, error) {
	name := parquet.HeadTable(stream)
	at, err := c.pointers.of(ctx, name)
	if err != nil || at == "" {
		return nil, err
	}
	meta, err := c.load(ctx, name, at)
	if err != nil {
		return nil, err
	}
	says := saysOf(meta.CurrentSnapshot())
	if says[sayCommit] == "" {
		return nil, &load.ForeignChange{Table: name, Diff: []string{"somebody else has written to it"}}
	}
	h := &head{Head: &parquet.Head{ID: says[sayCommit], Manifest: says[sayManifest]}, at: at, meta: meta}
	if err := json.Unmarshal([]byte(says[sayTables]), &h.tables); err != nil {
		return nil, fmt.Errorf("read snapshot of %s: %w", name, err)
	}
	return h, nil
}

// saysOf is the summary of a snapshot; nil where there is none.
func saysOf(s *table.Snapshot) map[string]string {
	if s == nil || s.Summary == nil {
		return nil
	}
	return s.Summary.Properties
}

// Head implements [parquet.Catalog].
func (c *catalog) Head(ctx context.Context, stream string) (*parquet.Head, error) {
	h, err := c.head(ctx, stream)
	if err != nil || h == nil {
		return nil, err
	}
	return h.Head, nil
}

// Commit implements [parquet.Catalog].
func (c *catalog) Commit(ctx context.Context, of parquet.Commit) error {
	h, err := c.head(ctx, of.Stream)
	if err != nil {
		return err
	}
	if h == nil {
		h = &head{Head: &parquet.Head{}}
	}
	if h.ID != of.Parent {
		return fmt.Errorf("%w: another has committed to %s", state.ErrMoved, of.Stream)
	}
	at, err := c.pointers.all(ctx)
	if err != nil {
		return err
	}
	if err := load.Step(c.step, "metadata"); err != nil {
		return err
	}
	w := &commit{catalog: c, of: of, snapshots: map[string]int64{}}
	var swaps []swap
	for _, t := range of.Tables {
		e, err := c.edit(ctx, h, of.Says["stream"], t, at[t.Name])
		if err == nil {
			err = w.follow(ctx, e, t.Name == parquet.HeadTable(of.Stream))
		}
		if err != nil {
			return fmt.Errorf("table %s: %w", t.Name, err)
		}
		if e.to != "" {
			swaps = append(swaps, swap{table: t.Name, from: at[t.Name], to: e.to})
		}
	}
	for _, name := range of.Dropped {
		if at[name] != "" {
			swaps = append(swaps, swap{table: name, from: at[name]})
		}
	}
	if err := load.Step(c.step, "swap"); err != nil {
		return err
	}
	if err := c.pointers.swap(ctx, swaps); err != nil {
		return err
	}
	if err := load.Step(c.step, "swapped"); err != nil {
		return err
	}
	for name, k := range w.made {
		c.learn(name, k.at, k.meta)
	}
	return nil
}

// edit begins the next edition of a table, whose metadata lies at the place
// given, and refuses one that somebody else has written to. // Invariant 16
func (c *catalog) edit(ctx context.Context, h *head, stream string, t parquet.TableFiles, at string) (*edition, error) {
	want, ours := h.tables[t.Name]
	switch {
	case at == "" && t.Was != nil:
		return nil, &load.ForeignChange{Table: t.Table, Diff: []string{"it is not in the catalog any more"}}
	case at != "" && !ours:
		return nil, &load.ForeignChange{Table: t.Table, Diff: []string{"another table of that name is in the catalog"}}
	case t.Was == nil:
		return newEdition(c, t, stream)
	}
	meta, err := c.load(ctx, t.Name, at)
	if err != nil {
		return nil, err
	}
	if s := meta.CurrentSnapshot(); s == nil || s.SnapshotID != want {
		return nil, &load.ForeignChange{Table: t.Table, Diff: []string{"somebody else has written to it"}}
	}
	if err := compare(t, meta.CurrentSchema()); err != nil {
		return nil, err
	}
	return nextEdition(t, stream, at, meta)
}

// Named implements [parquet.Catalog]. Of files that are older than all commits
// which are kept, those of a table's oldest snapshot are the only ones left.
func (c *catalog) Named(ctx context.Context, stream string) ([]string, error) {
	h, err := c.head(ctx, stream)
	if err != nil || h == nil {
		return nil, err
	}
	at, err := c.pointers.all(ctx)
	if err != nil {
		return nil, err
	}
	var out []string
	add := func(location string) {
		if name, ok := c.files.Name(location); ok {
			out = append(out, name)
		}
	}
	for name := range h.tables {
		meta, err := c.load(ctx, name, at[name])
		if err != nil {
			return nil, err
		}
		add(at[name])
		for log := range meta.PreviousFiles() {
			add(log.MetadataFile)
		}
		if all := meta.Snapshots(); len(all) > 0 {
			list, err := c.list(ctx, all[0])
			if err != nil {
				return nil, err
			}
			add(all[0].ManifestList)
			for _, m := range list {
				add(m.FilePath())
			}
		}
		for _, s := range meta.Snapshots() {
			add(s.ManifestList)
		}
	}
	return out, nil
}
