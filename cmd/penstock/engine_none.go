//go:build !cgo || !duckdb_arrow

package main

const duckdbMissing = "built without cgo or without the tag duckdb_arrow; `make build` sets both"
