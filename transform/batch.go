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

// Reject is a record that cannot be stored, or a value of a record that no column can hold. It has the data that a
// later repair needs.
type Reject struct {
	Stream  string
	Stage   string // the stage that rejected it: one of the Stage constants
	ID      string // the same in every pass: the record's key as JSON, or a hash of its content if it has no key
	Ordinal int64  // number of the record in the pass
	Key     string // key of the record as JSON; "" if it has none
	Pointer string // JSON pointer to the value; "" for the whole record
	Wanted  string // type or content that penstock expected
	Raw     string // the original value; bytes that are not UTF-8 are written as \xNN
	Reason  string
	Record  bool // the whole record is rejected, not only one value
}

// The stages in which records and values are rejected.
const (
	StageExtract   = "extract"   // the source did not return the record
	StageTransform = "transform" // no column can hold it
	StageContract  = "contract"  // the stream's contract does not allow it
	StageLoad      = "load"      // the type in the destination cannot hold it
	StageWebhook   = "webhook"   // a webhook event about the record could not be applied
)

// HashID returns the [Reject].ID of a record without a key: a hash of its content.
func HashID(raw string) string {
	h := xxh3.HashString128(raw).Bytes()
	return "#" + hex.EncodeToString(h[:])
}

// Stamp has the values that all rows of a pass have in common.
type Stamp struct {
	Run      string
	SyncedAt time.Time // when the records were read; destinations store the time of the commit instead
	Via      string    // how penstock got the rows: "poll", "webhook" or "backfill"
}
