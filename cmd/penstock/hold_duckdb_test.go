//go:build cgo && duckdb_arrow

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

// hold is a command for the scripts in testdata. It keeps a DuckDB file open for writing until it is interrupted, like
// the shell of an analyst. The first argument is the DuckDB file. The second is a file that hold creates when the
// database is open.
func hold() {
	if err := holdFile(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shell is a command for the scripts in testdata. It runs a statement on a DuckDB file. Its arguments are the file and
// the statement.
func shell() {
	db, err := sql.Open("duckdb", os.Args[1])
	if err == nil {
		_, err = db.Exec(os.Args[2])
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func holdFile(path, ready string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	db, err := sql.Open("duckdb", path)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.Exec("SELECT 1"); err != nil {
		return err
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return err
	}
	<-signals
	return nil
}
