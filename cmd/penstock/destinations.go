package main

import "github.com/penstock-data/penstock/cmd/internal/open"

// destinationKinds lists the kinds of destinations. A new kind needs a package under load/, a file such as duckdb.go,
// and a line here.
func destinationKinds() []open.Kind {
	return []open.Kind{
		duckdbKind(),
		sqliteKind(),
		postgresKind("postgres"),
		postgresKind("postgresql"),
		mysqlKind("mysql"),
		mysqlKind("mariadb"),
		parquetKind(),
		icebergKind(),
	}
}
