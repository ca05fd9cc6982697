package state

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"
)

const (
	keepIDs = 90 * 24 * time.Hour
	// fileEvery is how many recent ids are collected in memory before they are inserted into the ids table. All of them
	// are inserted in sorted order, so that far fewer pages of the file change.
	fileEvery = 8192
	// sweeps is how many of the 256 parts of the ids table are searched for old ids after each such insertion.
	sweeps = 2
)

type (
	identity [16]byte
	digest   [16]byte
)

func identityOf(source, id string) identity {
	text := binary.AppendUvarint(make([]byte, 0, 10+len(source)+len(id)), uint64(len(source)))
	h := sha256.Sum256(append(append(text, source...), id...))
	return identity(h[:16])
}

func digestOf(body []byte) digest {
	h := sha256.Sum256(body)
	return digest(h[:16])
}

type known struct {
	digest  digest
	ordinal int64
}

type account struct {
	last    int64
	filed   int64 // ids of events up to this ordinal are in the ids table; the map `recent` has the ids of later events
	swept   int
	bytes   int64
	sources map[string]int64 // number of each source in the file, by name
	recent  map[identity]known
}

func today() int64 { return time.Now().Unix() / (24 * 60 * 60) }

func readAccount(ctx context.Context, db *sql.DB) (*account, error) {
	a := &account{sources: map[string]int64{}, recent: map[identity]known{}}
	err := db.QueryRowContext(ctx, "SELECT last, filed, swept FROM inbox").Scan(&a.last, &a.filed, &a.swept)
	if err == nil {
		err = forEachQuery(ctx, db, func(scan func(...any) error) error {
			var id, bytes int64
			var name []byte
			err := scan(&id, &name, &bytes)
			a.sources[string(name)], a.bytes = id, a.bytes+bytes
			return err
		}, "SELECT source, name, bytes FROM sources")
	}
	if err == nil {
		err = forEachQuery(ctx, db, func(scan func(...any) error) error {
			var source, id, digest []byte
			var ordinal int64
			err := scan(&source, &id, &digest, &ordinal)
			a.remember(identityOf(string(source), string(id)), known{[16]byte(digest), ordinal})
			return err
		}, `SELECT name, id, digest, ordinal FROM events JOIN sources USING (source)
			WHERE ordinal > ? AND id <> x'' AND conflict <> ? ORDER BY ordinal`, a.filed, conflictLater)
	}
	if err != nil {
		return nil, fmt.Errorf("read account: %w", err)
	}
	return a, nil
}

func (a *account) remember(id identity, k known) {
	if _, there := a.recent[id]; !there {
		a.recent[id] = k
	}
}

func (a *account) find(ctx context.Context, tx inboxTx, group []*Delivery) (map[identity]known, error) {
	var ids []identity
	for _, d := range group {
		if _, there := a.recent[d.Key]; !there && d.Event.ID != "" {
			ids = append(ids, d.Key)
		}
	}
	found := map[identity]known{}
	for len(ids) > 0 {
		n, query := nextStatement(len(ids), findID, findIDs)
		args := make([]any, n)
		for i, id := range ids[:n] {
			args[i] = id[:]
		}
		rows, err := tx.prepared(ctx, query).QueryContext(ctx, args...)
		if err == nil {
			err = forEachRow(rows, func(scan func(...any) error) error {
				var key, digest []byte
				var ordinal int64
				err := scan(&key, &digest, &ordinal)
				found[identity(key)] = known{[16]byte(digest), ordinal}
				return err
			})
		}
		if err != nil {
			return nil, fmt.Errorf("read ids: %w", err)
		}
		ids = ids[n:]
	}
	return found, nil
}

func (a *account) file(ctx context.Context, tx inboxTx) error {
	ids := slices.SortedFunc(maps.Keys(a.recent), func(x, y identity) int { return bytes.Compare(x[:], y[:]) })
	for len(ids) > 0 {
		n, insert := nextStatement(len(ids), insertID, insertIDs)
		args := make([]any, 0, n*idColumns)
		for _, id := range ids[:n] {
			k := a.recent[id]
			args = append(args, id[:], k.digest[:], k.ordinal, today())
		}
		if _, err := tx.prepared(ctx, insert).ExecContext(ctx, args...); err != nil {
			return fmt.Errorf("store ids: %w", err)
		}
		ids = ids[n:]
	}
	for range sweeps {
		if err := a.sweep(ctx, tx); err != nil {
			return fmt.Errorf("forget old ids: %w", err)
		}
	}
	a.recent, a.filed = map[identity]known{}, a.last
	if _, err := tx.ExecContext(ctx, "UPDATE inbox SET filed = ?, swept = ?", a.filed, a.swept); err != nil {
		return fmt.Errorf("store ids: %w", err)
	}
	return nil
}

// sweep deletes old ids from one of the 256 parts of the ids table. The next call does the next part. All ids of a part
// have the same first byte.
func (a *account) sweep(ctx context.Context, tx inboxTx) error {
	a.swept = (a.swept + 1) % 256
	first, last := []byte{byte(a.swept)}, bytes.Repeat([]byte{0xff}, len(identity{}))
	last[0] = byte(a.swept)
	old := time.Now().Add(-keepIDs).Unix() / (24 * 60 * 60)
	for _, table := range []string{"ids", "variants"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE key BETWEEN ? AND ? AND day < ?", first, last, old); err != nil {
			return err
		}
	}
	return nil
}
