//go:build cgo && duckdb_arrow

package main

const duckdbMissing = ""
