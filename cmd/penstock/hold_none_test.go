//go:build !cgo || !duckdb_arrow

package main

func hold() {}

func shell() {}
