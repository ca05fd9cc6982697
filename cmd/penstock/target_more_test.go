//go:build cgo && duckdb_arrow && unix && !iceberg

package main

import "testing"

// moreTargets returns the kinds of warehouses that exist only in builds with the tag iceberg. This build has none.
func moreTargets() map[string]func(*testing.T) target { return nil }
