package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

const (
	conflictNone = iota
	conflictFirst
	conflictLater
)

// manyRows is how many rows a statement for a large group inserts. Each statement has a fixed cost, so one statement
// for many rows is cheaper than many statements.
const manyRows = 16

const (
	eventColumns = 11
	idColumns    = 4
)

var (
	insertEvent  = insertEventRows(1)
	insertEvents = insertEventRows(manyRows)
	insertID     = "INSERT INTO ids VALUES " + placeholders(1, idColumns) + " ON CONFLICT DO NOTHING"
	insertIDs    = "INSERT INTO ids VALUES " + placeholders(manyRows, idColumns) + " ON CONFLICT DO NOTHING"
	findID       = "SELECT key, digest, ordinal FROM ids WHERE key = ?"
	moveHead     = "UPDATE sources SET head = ?, bytes = bytes + ? WHERE source = ?"
	moveLast     = "UPDATE inbox SET last = ?"
	findIDs      = "SELECT key, digest, ordinal FROM ids WHERE key IN " + placeholders(1, manyRows)
)

func insertEventRows(n int) string {
	return "INSERT INTO events (ordinal, source, id, type, received, scheme, header, body, digest, conflict, size) VALUES " + placeholders(n, eventColumns)
}

func placeholders(rows, columns int) string {
	row := ", (?" + strings.Repeat(", ?", columns-1) + ")"
	return strings.Repeat(row, rows)[2:]
}

func nextStatement(n int, one, many string) (int, string) {
	if n >= manyRows {
		return manyRows, many
	}
	return 1, one
}

type inboxTx struct {
	*sql.Tx
	compiled map[string]*sql.Stmt
}

func (tx inboxTx) prepared(ctx context.Context, query string) *sql.Stmt {
	return tx.StmtContext(ctx, tx.compiled[query])
}

func compile(ctx context.Context, db *sql.DB) (map[string]*sql.Stmt, error) {
	compiled := map[string]*sql.Stmt{}
	for _, query := range []string{insertEvent, insertEvents, insertID, insertIDs, findID, findIDs, moveHead, moveLast} {
		s, err := db.PrepareContext(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("prepare statement %.20s: %w", query, err)
		}
		compiled[query] = s
	}
	return compiled, nil
}

func forEachQuery(ctx context.Context, db *sql.DB, row func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return forEachRow(rows, row)
}

func forEachRow(rows *sql.Rows, row func(scan func(...any) error) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}
