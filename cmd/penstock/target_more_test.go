//go:build cgo && duckdb_arrow && unix && !iceberg

package main

import "testing"

// moreTargets returns the kinds of warehouse that only builds with the tag iceberg have. This build has none of them.
func moreTargets() map[string]func(*testing.T) target { return nil }
