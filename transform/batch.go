package transform

import (
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// TableBatch is a batch of rows and the table they belong to. Whoever receives
// it releases Batch.
type TableBatch struct {
	Table schemas.Table
	Batch arrow.RecordBatch
}

// Reject is a record, or a value of a record that was kept, which no column can
// hold. It carries what is needed to repair it.
type Reject struct {
	Stream  string
	Ordinal int64  // which record of the pass
	Key     string // the record's key as JSON, where it has one
	Pointer string // JSON pointer to the value; "" for the whole record
	Wanted  string // what was expected there
	Raw     string // the value as it came; bytes that are not UTF-8 as \xNN
	Reason  string
	Record  bool // the record was left out, not only the value
}

// Stamp is what every row of a pass has in common.
type Stamp struct {
	Run      string
	SyncedAt time.Time
	Via      string // poll, webhook or backfill
}
