package transform

import (
	"encoding/hex"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/schemas"
)

// TableBatch is a batch with the table that it belongs to. The receiver releases Batch.
type TableBatch struct {
	Table schemas.Table
	Batch arrow.RecordBatch
}

// Reject is a record that cannot be stored, or a value of a record that no column can hold. It has
// the data that is needed for a repair.
type Reject struct {
	Stream  string
	Stage   string // what rejected it: one of the Stage constants
	ID      string // identifies the record in every pass over the stream: its key as JSON, otherwise a hash of its content
	Ordinal int64  // number of the record in the pass
	Key     string // the record's key as JSON, if it has one
	Pointer string // JSON pointer to the value; "" for the whole record
	Wanted  string // type or content that was expected
	Raw     string // the original value, with \xNN for bytes that are not UTF-8
	Reason  string
	Record  bool // the whole record is rejected, not only a value
}

// The stages that reject records and values.
const (
	StageExtract   = "extract"   // the source did not deliver the record
	StageTransform = "transform" // no column can hold it
	StageContract  = "contract"  // the stream's contract excludes it
	StageLoad      = "load"      // the type in the destination cannot hold it
	StageWebhook   = "webhook"   // a webhook event about the record could not be applied
)

// HashID returns a [Reject].ID for a record without a key: a hash of its content.
func HashID(raw string) string {
	h := xxh3.HashString128(raw).Bytes()
	return "#" + hex.EncodeToString(h[:])
}

// Stamp has the values that all rows of a pass share.
type Stamp struct {
	Run      string
	SyncedAt time.Time // when the records were read; a destination stores the time of the commit instead
	Via      string    // how the rows came: "poll", "webhook" or "backfill"
}
