//go:build !cgo || !duckdb_arrow

package parquet

import (
	"testing"
	"time"

	"github.com/penstock-data/penstock/load/loadtest"
)

func TestConformance(t *testing.T) { loadtest.Run(t, driver(scanned)) }

func baseline(*testing.B, *Lake, time.Duration, int) {}
