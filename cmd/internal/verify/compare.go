package verify

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type comparison struct {
	*rowhash.File
	have   schemas.Table
	key    []string
	at     int  // index of the table in the hash file; -1 if the source has no rows for it
	extras bool // whether rows that the source lacks count as a difference
	parts  uint64
	out    *Result
	most   int
}

type entry struct {
	hash  uint64
	place int64 // offset of the key in the hash file
	want  int32 // number of rows with this key at the source; above 1 only if the table has no key and has equal rows
	got   int32

	version // the latest version in the destination; only in mode append
}

type version struct {
	hash   uint64
	run    string
	synced int64
}

// compare compares the rows of one table with the hash file. If there are too many rows for memory, it compares them
// in several parts. // Invariant 6
func (v *verifier) compare(ctx context.Context, d load.Destination, have schemas.Table, b *rowhash.File, out *Result) error {
	c := &comparison{File: b, have: have, key: have.Key, at: b.Find(have.Name), parts: 1, out: out, most: v.options.Keys}
	c.extras = have.Mode != schemas.Append
	if c.at >= 0 {
		c.key = b.Tables[c.at].Key
		c.parts += uint64(b.Tables[c.at].Rows / v.options.compared)
	} else if len(c.key) == 0 {
		c.key = []string{schemas.ColHash}
	}
	for part := range c.parts {
		if err := c.part(ctx, d, part); err != nil {
			return fmt.Errorf("%s in %s: %w", have.Name, out.Destination, err)
		}
	}
	slices.SortStableFunc(out.List, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	return nil
}

func (c *comparison) part(ctx context.Context, d load.Destination, part uint64) error {
	entries, err := c.load(part)
	if err != nil {
		return err
	}
	if c.have.Columns != nil {
		err := d.Scan(ctx, c.have.Name, c.columns(), func(b arrow.RecordBatch) error { return c.scan(entries, part, b) })
		if err != nil {
			return err
		}
	}
	return c.settle(entries)
}

// load reads one part of the hash file. If two rows have the same key, load keeps the hash of the later row, as a run
// does.
func (c *comparison) load(part uint64) (map[rowhash.Fingerprint]*entry, error) {
	entries := map[rowhash.Fingerprint]*entry{}
	err := c.Each(c.at, func(at int64, key, hash string) error {
		p := c.Fingerprint(key)
		if p[0]%c.parts != part {
			return nil
		}
		e := entries[p]
		if e == nil {
			e = &entry{place: at}
			entries[p] = e
		}
		e.hash = c.sum(hash)
		if e.want++; !c.counts() {
			e.want = 1
		}
		return nil
	})
	return entries, err
}

func (c *comparison) sum(hash string) uint64 { return maphash.String(c.Seeds[0], hash) }

// counts reports whether equal rows must be counted. A table without a key may have equal rows.
func (c *comparison) counts() bool { return c.key[0] == schemas.ColHash }

// columns returns the key columns, then the hash, then the columns that show whether a row is live.
func (c *comparison) columns() []string {
	columns := append(slices.Clone(c.key), schemas.ColHash)
	switch {
	case c.have.Mode == schemas.Append:
		return append(columns, schemas.ColRun, schemas.ColSyncedAt)
	case c.have.Mode == schemas.History:
		return append(columns, schemas.ColValidTo)
	}
	return append(columns, schemas.ColDeletedAt)
}

func (c *comparison) scan(entries map[rowhash.Fingerprint]*entry, part uint64, b arrow.RecordBatch) error {
	key, rest := b.Columns()[:len(c.key)], b.Columns()[len(c.key):]
	for row := range int(b.NumRows()) {
		if c.have.Mode != schemas.Append && !rest[1].IsNull(row) {
			continue
		}
		text := rowhash.KeyText(key, row)
		p := c.Fingerprint(text)
		if p[0]%c.parts != part {
			continue
		}
		e := entries[p]
		hash := c.sum(rowhash.Text(rest[0], row))
		switch {
		case e != nil && c.have.Mode == schemas.Append && !c.counts():
			e.later(hash, rest[1:], row)
		case e != nil && e.got < e.want:
			e.got++
			c.out.Rows++
			if e.hash != hash {
				c.out.Differing++
				c.list(RowDiffers, text)
			}
		case c.extras:
			c.out.Rows++
			c.out.Extra++
			c.list(RowExtra, text)
		}
	}
	return nil
}

func (e *entry) later(hash uint64, at []arrow.Array, row int) {
	v := version{hash: hash, run: rowhash.Text(at[0], row)}
	if synced, ok := at[1].(*array.Timestamp); ok {
		v.synced = int64(synced.Value(row))
	}
	if e.got > 0 && (v.run < e.run || v.run == e.run && v.synced < e.synced) {
		return
	}
	e.got, e.version = 1, v
}

func (c *comparison) settle(entries map[rowhash.Fingerprint]*entry) error {
	for _, e := range entries {
		latest := e.got > 0 && e.run != ""
		kind := RowMissing
		switch {
		case latest:
			c.out.Rows++
			if e.version.hash == e.hash {
				continue
			}
			c.out.Differing++
			kind = RowDiffers
		case e.got == e.want:
			continue
		default:
			c.out.Missing += int64(e.want - e.got)
		}
		if len(c.out.List) >= c.most {
			continue
		}
		key, err := c.KeyAt(e.place)
		if err != nil {
			return err
		}
		c.list(kind, key)
	}
	return nil
}

func (c *comparison) list(kind DifferenceKind, key string) {
	if len(c.out.List) < c.most {
		c.out.List = append(c.out.List, Difference{Kind: kind, Table: c.have.Name, Key: key})
	}
}
