package transform

import (
	"encoding/hex"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

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
	Stage   string // that refused it: one of the Stage constants
	ID      string // tells the record apart from others of the stream in every pass: its key as JSON, else a hash of what it holds
	Ordinal int64  // which record of the pass
	Key     string // the record's key as JSON, where it has one
	Pointer string // JSON pointer to the value; "" for the whole record
	Wanted  string // what was expected there
	Raw     string // the value as it came; bytes that are not UTF-8 as \xNN
	Reason  string
	Record  bool // the record was left out, not only the value
}

// The stages that refuse records and values.
const (
	StageExtract   = "extract"   // the source does not give it
	StageTransform = "transform" // no column can hold it
	StageContract  = "contract"  // the stream's contract keeps it out, as the user wishes
	StageLoad      = "load"      // the destination's type cannot hold it
	StageWebhook   = "webhook"   // an event about it was given up
)

// HashID is an [Reject].ID for a record without a key, made of what is kept of it.
func HashID(raw string) string {
	h := xxh3.HashString128(raw).Bytes()
	return "#" + hex.EncodeToString(h[:])
}

// Stamp is what every row of a pass has in common.
type Stamp struct {
	Run      string
	SyncedAt time.Time // when the records are read; a destination puts the time of its commit in its place
	Via      string    // poll, webhook or backfill
}
