package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

type notes struct{ s *Store }

var _ state.Notes = notes{}

// Note implements [state.Notes].
func (n notes) Note(ctx context.Context, name string) (text []byte, err error) {
	err = n.s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, "SELECT text FROM notes WHERE name = $1", name).Scan(&text)
	})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("read note %s: %w", name, err)
	}
	return text, nil
}

// SetNote implements [state.Notes].
func (n notes) SetNote(ctx context.Context, name string, previous, text []byte) error {
	tries := 0
	err := n.s.change(ctx, func(tx pgx.Tx) error {
		tries++
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('penstock note ' || $1, 0))", name); err != nil {
			return err
		}
		var now []byte
		err := tx.QueryRow(ctx, "SELECT text FROM notes WHERE name = $1", name).Scan(&now)
		switch {
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			return err
		case tries > 1 && same(now, text):
			return nil // an earlier try has changed the note, but its answer was lost
		case !same(now, previous):
			return state.ErrMoved
		case text == nil:
			_, err = tx.Exec(ctx, "DELETE FROM notes WHERE name = $1", name)
		default:
			_, err = tx.Exec(ctx, "INSERT INTO notes VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET text = excluded.text", name, text)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("write note %s: %w", name, err)
	}
	return nil
}

func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// NotesIn implements [state.Notes].
func (n notes) NotesIn(ctx context.Context, folder string) (all map[string][]byte, err error) {
	err = n.s.read(ctx, func(q querier) error {
		all = map[string][]byte{}
		rows, err := q.Query(ctx, "SELECT name, text FROM notes WHERE starts_with(name, $1 || '/')", folder)
		if err != nil {
			return err
		}
		var name string
		var text []byte
		_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error { all[name] = bytes.Clone(text); return nil })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the notes in %s: %w", folder, err)
	}
	return all, nil
}
