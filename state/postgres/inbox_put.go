package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// commit stores a group in one transaction. If the answer to the commit is lost, it does not retry. Instead, the
// platform sends the deliveries again, and the inbox recognizes those that it has already stored. Invariant 3
func (b *inbox) commit(group []*state.Delivery) {
	// The group is written even if the callers stop waiting.
	ctx, cancel := context.WithTimeout(context.Background(), 2*reconnect.Total)
	defer cancel()
	err := b.s.changeOnce(ctx, func(tx pgx.Tx) error {
		g := &grouping{tx: tx, quota: b.quota, heads: map[string]head{}}
		return g.put(ctx, group)
	})
	if err == nil {
		return
	}
	for _, d := range group {
		d.Previous, d.Err = "", err
	}
}

type known struct {
	digest  [16]byte
	ordinal int64
}

type variant struct{ key, digest [16]byte }

type head struct{ ordinal, bytes int64 }

type grouping struct {
	tx          pgx.Tx
	quota       int64
	last, bytes int64 // values of the row of the table inbox
	added       int64 // bytes that this group adds

	first    map[[16]byte]known
	variants map[variant]bool
	sources  map[string]int32
	heads    map[string]head

	rows, firsts []*state.Delivery
	others       []variant
	conflicts    []int64
}

func (g *grouping) put(ctx context.Context, group []*state.Delivery) error {
	if err := g.read(ctx, group); err != nil {
		return err
	}
	for _, d := range group {
		d.Previous, d.Err = "", nil
		g.classify(d)
	}
	if len(g.rows) == 0 {
		return nil
	}
	if err := g.assignSources(ctx); err != nil {
		return err
	}
	return g.write(ctx)
}

func (g *grouping) read(ctx context.Context, group []*state.Delivery) error {
	var keys, names [][]byte
	for _, d := range group {
		names = append(names, []byte(d.Event.Source))
		if d.Event.ID != "" {
			keys = append(keys, d.Key[:])
		}
	}
	g.first, g.variants, g.sources = map[[16]byte]known{}, map[variant]bool{}, map[string]int32{}
	var q pgx.Batch
	q.Queue("SELECT last, bytes FROM inbox FOR UPDATE").QueryRow(func(row pgx.Row) error { return row.Scan(&g.last, &g.bytes) })
	q.Queue("SELECT key, digest, ordinal FROM event_ids WHERE key = ANY($1)", keys).Query(func(rows pgx.Rows) error {
		var key, digest []byte
		var ordinal int64
		_, err := pgx.ForEachRow(rows, []any{&key, &digest, &ordinal}, func() error {
			g.first[[16]byte(key)] = known{[16]byte(digest), ordinal}
			return nil
		})
		return err
	})
	q.Queue("SELECT key, digest FROM event_variants WHERE key = ANY($1)", keys).Query(func(rows pgx.Rows) error {
		var key, digest []byte
		_, err := pgx.ForEachRow(rows, []any{&key, &digest}, func() error {
			g.variants[variant{[16]byte(key), [16]byte(digest)}] = true
			return nil
		})
		return err
	})
	q.Queue("SELECT source, name FROM inbox_sources WHERE name = ANY($1)", names).Query(func(rows pgx.Rows) error {
		var source int32
		var name []byte
		_, err := pgx.ForEachRow(rows, []any{&source, &name}, func() error {
			g.sources[string(name)] = source
			return nil
		})
		return err
	})
	if err := g.tx.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("read inbox: %w", err)
	}
	return nil
}

func (g *grouping) classify(d *state.Delivery) {
	first, again := g.first[d.Key]
	switch {
	case d.Event.ID == "" || !again:
		d.Previous = state.Stored
	case first.digest == d.Digest, g.variants[variant{d.Key, d.Digest}]:
		d.Previous = state.Duplicate
		return
	default:
		d.Previous = state.Conflicting
	}
	if g.bytes+g.added+d.Size > g.quota {
		d.Previous, d.Err = "", fmt.Errorf("%w: the stored events take %d bytes, and the quota is %d bytes", state.ErrInboxFull, g.bytes+g.added, g.quota)
		return
	}
	g.last++
	g.added += d.Size
	d.Event.Ordinal = g.last
	g.heads[d.Event.Source] = head{g.last, g.heads[d.Event.Source].bytes + d.Size}
	g.rows = append(g.rows, d)
	switch {
	case d.Previous == state.Conflicting:
		g.conflicts = append(g.conflicts, first.ordinal)
		g.variants[variant{d.Key, d.Digest}] = true
		g.others = append(g.others, variant{d.Key, d.Digest})
	case d.Event.ID != "":
		g.first[d.Key] = known{d.Digest, g.last}
		g.firsts = append(g.firsts, d)
	}
}

func (g *grouping) assignSources(ctx context.Context) error {
	for name := range g.heads {
		if _, there := g.sources[name]; there {
			continue
		}
		var source int32
		if err := g.tx.QueryRow(ctx, "INSERT INTO inbox_sources (name) VALUES ($1) RETURNING source", []byte(name)).Scan(&source); err != nil {
			return fmt.Errorf("add source: %w", err)
		}
		g.sources[name] = source
	}
	return nil
}

func (g *grouping) write(ctx context.Context) error {
	var c columns
	for _, d := range g.rows {
		c.add(g.sources[d.Event.Source], d)
	}
	var q pgx.Batch
	q.Queue(`INSERT INTO events (ordinal, source, id, type, received, scheme, header, body, digest, conflict, size)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bytea[], $4::bytea[], $5::timestamptz[], $6::bytea[], $7::bytea[], $8::bytea[], $9::bytea[], $10::boolean[], $11::bigint[])`,
		c.ordinals, c.sources, c.ids, c.types, c.received, c.schemes, c.headers, c.bodies, c.digests, c.conflicts, c.sizes)
	if len(g.firsts) > 0 {
		var keys, digests [][]byte
		var ordinals []int64
		for _, d := range g.firsts {
			keys, digests, ordinals = append(keys, d.Key[:]), append(digests, d.Digest[:]), append(ordinals, d.Event.Ordinal)
		}
		q.Queue("INSERT INTO event_ids SELECT *, "+today+" FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])", keys, digests, ordinals)
	}
	if len(g.others) > 0 {
		var keys, digests [][]byte
		for _, v := range g.others {
			keys, digests = append(keys, v.key[:]), append(digests, v.digest[:])
		}
		q.Queue("INSERT INTO event_variants SELECT *, "+today+" FROM unnest($1::bytea[], $2::bytea[])", keys, digests)
		q.Queue("UPDATE events SET conflict = true WHERE ordinal = ANY($1)", g.conflicts)
	}
	for name, h := range g.heads {
		q.Queue("UPDATE inbox_sources SET head = $1, bytes = bytes + $2 WHERE source = $3", h.ordinal, h.bytes, g.sources[name])
	}
	q.Queue("UPDATE inbox SET last = $1, bytes = bytes + $2", g.last, g.added)
	if err := g.tx.SendBatch(ctx, &q).Close(); err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	return nil
}

type columns struct {
	ordinals, sizes                               []int64
	sources                                       []int32
	ids, types, schemes, headers, bodies, digests [][]byte
	received                                      []time.Time
	conflicts                                     []bool
}

func (c *columns) add(source int32, d *state.Delivery) {
	e := &d.Event
	c.ordinals, c.sizes, c.sources = append(c.ordinals, e.Ordinal), append(c.sizes, d.Size), append(c.sources, source)
	c.ids, c.types, c.schemes = append(c.ids, []byte(e.ID)), append(c.types, []byte(e.Type)), append(c.schemes, []byte(e.Scheme))
	c.headers, c.bodies, c.digests = append(c.headers, d.Header), append(c.bodies, blob(e.Body)), append(c.digests, d.Digest[:])
	c.received = append(c.received, e.Received)
	c.conflicts = append(c.conflicts, d.Previous == state.Conflicting)
}

// blob returns an empty slice for nil, because pgx stores nil as NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

var errReading = errors.New("the inbox was opened for reading")
