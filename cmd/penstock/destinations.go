package main

// destinationKinds lists the kinds of destinations. A new kind needs a folder under load, a file like duckdb.go, and
// a line here.
func destinationKinds() []Kind {
	return []Kind{
		duckdbKind(),
		sqliteKind(),
		postgresKind("postgres"),
		postgresKind("postgresql"),
		parquetKind(),
		icebergKind(),
	}
}
