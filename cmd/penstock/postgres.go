package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres"
)

// postgresPlace is the kind of destination that is a schema of a Postgres
// database, under one of the two schemes of its URLs.
func postgresPlace(scheme string) destinationKind {
	return destinationKind{
		scheme: scheme, open: openPostgres, check: checkPostgres, warn: warnPostgres,
		// Rows stream through, and a commit costs little: two groups are under way at
		// a time, so that the server never waits for the next.
		room: memoryPlan{heap: 38 << 20, budget: 16 << 20, group: 4 << 20},
		locate: func(_ context.Context, d config.Destination, _ load.Destination, table string) (string, error) {
			return sqlName(cmp.Or(d.Schema, "public")) + "." + sqlName(table), nil
		},
	}
}

// openPostgres reads a URL as libpq does, in which json=json, wait=1m and
// wait_lock=10s may stand beside the options that Postgres knows.
func openPostgres(ctx context.Context, a *app, d config.Destination) (load.Destination, error) {
	db, err := dialPostgres(ctx, a, d)
	if err != nil {
		return nil, err
	}
	return db, nil
}

func dialPostgres(ctx context.Context, a *app, d config.Destination) (*postgres.DB, error) {
	o := postgres.Options{Schema: d.Schema, Log: a.log, Step: a.step, Silence: a.life / 2, Warned: &a.warned}
	base, query, _ := strings.Cut(d.URL.Reveal(), "?")
	theirs, ours, err := splitOptions(query, "json", "wait", "wait_lock")
	if err != nil {
		return nil, err
	}
	err = options(ours, map[string]func(string) error{
		"json": func(v string) error {
			if o.JSON = v; v != "json" && v != "jsonb" {
				return errors.New("want jsonb or json")
			}
			return nil
		},
		"wait":      waitOption(&o.Wait),
		"wait_lock": waitOption(&o.LockTimeout),
	})
	if err != nil {
		return nil, err
	}
	if o.URL = base; theirs != "" {
		o.URL += "?" + theirs
	}
	db, err := postgres.Open(ctx, o)
	switch {
	case errors.Is(err, postgres.ErrPooled), errors.Is(err, postgres.ErrUnsafe), errors.As(err, new(*failure)), errors.Is(err, syscall.ENOSPC):
		return nil, err
	case err != nil:
		return nil, hinted(err, "look at the destination's url: host, port, database, user, password and sslmode; and whether the server runs")
	}
	return db, nil
}

// splitOptions parts the query of a URL: what is ours, by name, from what is
// the server's.
func splitOptions(query string, names ...string) (theirs, ours string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", usage("", "its options are no query: want ?name=value&name=value")
	}
	own := url.Values{}
	for _, name := range names {
		if v, ok := values[name]; ok {
			own[name] = v
			delete(values, name)
		}
	}
	return values.Encode(), own.Encode(), nil
}

// checkPostgres asks for the rights that a run needs.
func checkPostgres(ctx context.Context, a *app, d config.Destination) error {
	db, err := dialPostgres(ctx, a, d)
	if err != nil {
		return err
	}
	err = db.Check(ctx)
	if _, lacking := errors.AsType[postgres.Lacking](err); lacking {
		err = hinted(err, "let somebody who may run the statements above, or name another role in the destination's url")
	}
	return errors.Join(err, db.Close())
}

// warnPostgres says which rights of the role, and of others, are larger than a run needs.
func warnPostgres(ctx context.Context, a *app, d config.Destination) ([]string, error) {
	db, err := dialPostgres(ctx, a, d)
	if err != nil {
		return nil, err
	}
	warnings, err := db.Warnings(ctx)
	if len(warnings) > 0 {
		warnings = append(warnings, "for `penstock query`, `ui` and `mcp` use a configuration whose url names a role that may only read: GRANT USAGE and SELECT, and nothing else")
	}
	return warnings, errors.Join(err, db.Close())
}

// sqlName is an identifier as SQL reads it, whatever is in it.
func sqlName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
