//go:build !cgo || !duckdb_arrow

package main

const duckdbMissing = "it was built without cgo or without the tag duckdb_arrow; make build sets both"
