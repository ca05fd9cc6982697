//go:build cgo && duckdb_arrow && unix && !iceberg

package main

import "testing"

// moreTargets returns the kinds of warehouse that only builds with the tag iceberg have: none here.
func moreTargets() map[string]func(*testing.T) target { return nil }
