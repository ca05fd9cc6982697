//go:build !cgo || !duckdb_arrow

package parquet

import (
	"testing"
	"time"

	"github.com/penstock-data/penstock/load/loadtest"
)

// TestConformance runs the conformance suite, with tables read by penstock.
func TestConformance(t *testing.T) { loadtest.Run(t, driver(scanned)) }

// baseline needs DuckDB.
func baseline(*testing.B, *Lake, time.Duration, int) {}
