package main

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/mysql"
	"github.com/penstock-data/penstock/state"
)

// mysqlKind describes destinations in a database of a MySQL or MariaDB server. The scheme is "mysql" or "mariadb".
func mysqlKind(scheme string) open.Kind {
	return open.Kind{
		Scheme: scheme, Open: openMySQL, Check: checkMySQL,
		Memory:  open.MemoryPlan{Heap: 38 << 20, List: 5 << 20, Ahead: 16 << 20, Budget: 16 << 20, Group: 4 << 20},
		Columns: mysql.Columns,
		Locate: func(_ context.Context, d config.Destination, dest load.Destination, table string) (string, error) {
			return dest.(*mysql.DB).Locate(table), nil
		},
		NoViews: "their SQL is not written for MySQL",
	}
}

func openMySQL(_ context.Context, opener *open.Opener, d config.Destination) (load.Destination, error) {
	db, err := dialMySQL(opener, d)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// dialMySQL prepares a destination whose URL has the form mysql://user:password@host/database. The URL may have
// penstock's own option wait_lock=30s.
func dialMySQL(opener *open.Opener, d config.Destination) (*mysql.DB, error) {
	o := mysql.Options{Database: d.Schema, Step: opener.Step}
	base, query, _ := strings.Cut(d.URL.Reveal(), "?")
	theirs, ours, err := splitOptions(query, "wait_lock")
	if err != nil {
		return nil, err
	}
	if err := options(ours, map[string]func(string) error{"wait_lock": waitOption(&o.WaitLock)}); err != nil {
		return nil, err
	}
	if o.URL = base; theirs != "" {
		o.URL += "?" + theirs
	}
	return mysql.Open(o)
}

// checkMySQL checks the rights that a run needs.
func checkMySQL(ctx context.Context, opener *open.Opener, d config.Destination) error {
	db, err := dialMySQL(opener, d)
	if err != nil {
		return err
	}
	err = db.Check(ctx)
	_, lacking := errors.AsType[mysql.Problems](err)
	switch {
	case lacking:
		// Cause: the user lacks rights in the database
		err = failure.Hinted(err, "let an administrator run the statements above, or use another user in the destination's url")
	case err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, state.ErrLocked):
		// Cause: the server does not answer, or refuses the connection
		err = failure.Hinted(err, "check the destination's url (host, port, database, user, password, tls) and that the server is running")
	}
	return errors.Join(err, db.Close())
}
