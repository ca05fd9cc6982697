package transform

import (
	"encoding/hex"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
)

// TableBatch is a batch of rows and their table. The receiver releases Batch.
type TableBatch struct {
	Table schemas.Table
	Batch arrow.RecordBatch
}

// Reject is a record, or a value of a record, that no column can hold, with the data needed to repair
// it.
type Reject struct {
	Stream  string
	Stage   string // stage that rejected it: one of the Stage constants
	ID      string // identifies the record among all records of the stream, in every pass: its key as JSON, else a hash of its content
	Ordinal int64  // number of the record in the pass
	Key     string // the record's key as JSON, if it has one
	Pointer string // JSON pointer to the value; "" for the whole record
	Wanted  string // expected type or content
	Raw     string // the original value; bytes that are not UTF-8 as \xNN
	Reason  string
	Record  bool // the whole record is rejected, not only the value
}

// The stages that reject records and values.
const (
	StageExtract   = "extract"   // the source does not deliver it
	StageTransform = "transform" // no column can hold it
	StageContract  = "contract"  // excluded by the stream's contract, as configured
	StageLoad      = "load"      // the destination's type cannot hold it
	StageWebhook   = "webhook"   // an event about it was given up
)

// HashID returns a [Reject].ID for a record without a key, derived from its content.
func HashID(raw string) string {
	h := xxh3.HashString128(raw).Bytes()
	return "#" + hex.EncodeToString(h[:])
}

// Stamp is what all rows of a pass have in common.
type Stamp struct {
	Run      string
	SyncedAt time.Time // when the records are read; a destination replaces it by the time of its commit
	Via      string    // poll, webhook or backfill
}
