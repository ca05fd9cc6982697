//go:build !cgo || !duckdb_arrow

package parquet

import (
	"testing"
	"time"

	"github.com/penstock-data/penstock/load/loadtest"
)

// TestConformance holds the lake to the contract as it sees itself.
func TestConformance(t *testing.T) { loadtest.Run(t, driver(scanned)) }

// baseline needs DuckDB.
func baseline(*testing.B, *Lake, time.Duration, int) {}
