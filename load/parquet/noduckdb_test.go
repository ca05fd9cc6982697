//go:build !cgo || !duckdb_arrow

package parquet

import (
	"testing"
	"time"

	"github.com/penstock-data/penstock/load/loadtest"
)

func TestConformance(t *testing.T) {
	d := driver(scanned)
	d.Thorough = true
	loadtest.Run(t, d)
}

func baseline(*testing.B, *Lake, time.Duration, int) {}
