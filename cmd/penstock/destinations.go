package main

import (
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load/postgres"
)

// destinationKinds lists the kinds of destinations. A new kind needs a package under load/, a file such as duckdb.go,
// and a line here.
func destinationKinds() []open.Kind {
	servers := &postgres.Servers{}
	return []open.Kind{
		duckdbKind(),
		sqliteKind(),
		postgresKind("postgres", servers),
		postgresKind("postgresql", servers),
		mysqlKind("mysql"),
		mysqlKind("mariadb"),
		parquetKind(),
		icebergKind(),
	}
}
