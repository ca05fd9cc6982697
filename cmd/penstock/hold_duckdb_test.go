//go:build cgo && duckdb_arrow

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/signal"
)

// hold is a program of the scripts: it has a DuckDB file open for writing, like an analyst's shell, until it
// is interrupted. It creates the file ready when the database is open.
func hold() {
	if err := holdFile(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// shell is a program of the scripts: it runs a statement on a DuckDB file, like an analyst's shell.
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
