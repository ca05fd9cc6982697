//go:build cgo && duckdb_arrow && unix && !iceberg

package main

import "testing"

// moreTargets are the kinds of warehouse that only some builds have.
func moreTargets() map[string]func(*testing.T) target { return nil }
