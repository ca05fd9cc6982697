package extract

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-data/penstock/extract/records"
)

// BenchmarkEvidence looks for evidence in a page of 1,000 records that has none: the latest change comes first, and no
// record has been changed since it was created.
func BenchmarkEvidence(b *testing.B) {
	h := history{changed: "updated_at", created: "created_at"}
	var rows []records.Row
	for i := range 1000 {
		at := fmt.Sprintf("%q", time.Date(2026, 1, 1, 0, 0, -i, 0, time.UTC).Format(time.RFC3339))
		rows = append(rows, records.Row{"created_at": at, "updated_at": at})
	}
	for b.Loop() {
		if e, _ := h.evidence(rows); e != nil {
			b.Fatal("evidence")
		}
	}
}
