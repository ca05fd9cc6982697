package main

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/postgres"
	statepostgres "github.com/penstock-data/penstock/state/postgres"
)

// postgresKind describes destinations in a schema of a Postgres database. The scheme is "postgres" or "postgresql". The
// destinations share connections.
func postgresKind(scheme string, servers *postgres.Servers) open.Kind {
	p := postgresOpener{servers}
	return open.Kind{
		Scheme: scheme, Open: p.open, Check: p.check, Warn: p.warn, Close: servers.Close,
		Server: func(d config.Destination) string { return statepostgres.ServerOf(d.URL.Reveal()) },
		// Rows are streamed and a commit costs little, so commits are small. The budget is so large that the
		// server never waits for rows.
		Memory:  open.MemoryPlan{Heap: 56 << 20, List: 5 << 20, Ahead: 16 << 20, Budget: 16 << 20, Group: 4 << 20},
		Columns: postgres.Columns,
		Locate: func(_ context.Context, d config.Destination, _ load.Destination, table string) (string, error) {
			return render.SQLName(cmp.Or(d.Schema, "public")) + "." + render.SQLName(table), nil
		},
	}
}

// postgresOpener opens destinations that share connections.
type postgresOpener struct{ servers *postgres.Servers }

// open opens the database at a libpq URL. The URL may also have penstock's options: json=json, wait=1m and
// wait_lock=10s.
func (p postgresOpener) open(ctx context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	db, err := p.dial(ctx, opener, d)
	if err != nil {
		return nil, err
	}
	return db, nil
}

func (p postgresOpener) dial(ctx context.Context, opener *open.Opener, d config.Destination) (*postgres.DB, error) {
	o := postgres.Options{Servers: p.servers, Together: d.Together, Connections: d.Connections, Schema: d.Schema, Log: opener.Log, Step: opener.Step, IdleTimeout: opener.Life / 2, LoggedWarnings: &opener.Warned}
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
	case errors.Is(err, postgres.ErrUnsafe), errors.As(err, new(*failure.Error)), errors.Is(err, syscall.ENOSPC):
		return nil, err
	case err != nil:
		// Cause: the Postgres server does not answer, or refuses the connection
		return nil, failure.Hinted(err, "check the destination's url (host, port, database, user, password, sslmode) and that the server is running")
	}
	return db, nil
}

// splitOptions splits the options of a URL into two parts: first the options of the server, then penstock's own
// options, which have the given names.
func splitOptions(query string, names ...string) (theirs, ours string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", "", failure.Usage("", "invalid options: want ?name=value&name=value")
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

// check checks the rights that a run needs.
func (p postgresOpener) check(ctx context.Context, opener *open.Opener, d config.Destination) error {
	db, err := p.dial(ctx, opener, d)
	if err != nil {
		return err
	}
	err = db.Check(ctx)
	if _, lacking := errors.AsType[postgres.Problems](err); lacking {
		// Cause: the role lacks rights in the database
		err = failure.Hinted(err, "let an administrator run the statements above, or use another role in the destination's url")
	}
	return errors.Join(err, db.Close())
}

// warn returns warnings about rights that no run needs, but that the destination's role or another role has.
func (p postgresOpener) warn(ctx context.Context, opener *open.Opener, d config.Destination) ([]string, error) {
	db, err := p.dial(ctx, opener, d)
	if err != nil {
		return nil, err
	}
	warnings, err := db.Warnings(ctx)
	if len(warnings) > 0 {
		// Cause: a role has rights in the database that no run needs
		hint := "for `penstock query`, use a configuration with a read-only role in the url: GRANT only USAGE and SELECT"
		warnings = append(warnings, hint)
	}
	return warnings, errors.Join(err, db.Close())
}
