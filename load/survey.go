package load

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Surveyor is implemented by destinations that can handle many streams at once. Survey reads what a run must know about
// the streams. Settle commits the bookkeeping of those streams whose rows have not changed.
type Surveyor interface {
	// Survey reads the streams and penstock's own tables, in one snapshot of the destination. The streams belong to one
	// pipeline and one source. Survey returns an error that wraps [errors.ErrUnsupported] if the destination does not
	// support surveys.
	Survey(ctx context.Context, streams []Surveyed, own []SurveyedOwn) error

	// SurveyOf returns the results of the last Survey for a stream. It returns false if a transaction of the stream has
	// ended in this process since then. After a settlement, the results have the new cursor.
	SurveyOf(k state.Key) (StreamSurvey, bool)

	// Settle commits rows of penstock's own tables and new cursors, for many streams in one transaction. It changes no
	// other rows. The result has an error, or nil, for each settlement. The error is state.ErrMoved (wrapped) if the
	// stored cursor differs from the expected one, or if the stream has changed since the survey. The other settlements
	// are still committed. Invariants 1, 2, 13
	Settle(ctx context.Context, all []Settlement) []error
}

// Surveyed is a stream to survey, and its root table.
type Surveyed struct {
	Key     state.Key
	Table   string   // "" if the stream has no table; then only its cursor is read
	Columns []string // columns of integers or texts, to be read from the table's current rows; see [StreamSurvey].Current
}

// SurveyedOwn is one of penstock's own tables to read in a survey. The survey reads only rows of its pipeline and its
// source. In [Rejects] it reads only open rejects. In [Certificates] it reads only the rows of each stream's newest
// run. In [Runs] it reads only the newest [MostRuns] runs. It reads at most [MostOwnRows] + 1 rows of each table. A
// caller that gets more than MostOwnRows rows must scan the table instead.
type SurveyedOwn struct {
	Table   string
	Columns []string
	Visit   func(arrow.RecordBatch) error // as in [Destination].Scan
}

// MostOwnRows is the greatest number of rows that a run takes from a survey for one of penstock's own tables.
// Invariant 6
const MostOwnRows = 50_000

// MostRuns is the number of runs that a survey reads.
const MostRuns = 30

// StreamSurvey has the results of a survey for one stream.
type StreamSurvey struct {
	Cursor state.Cursor
	Tables []schemas.Table // as [Destination].Tables returns them
	State  StreamState     // as [Destination].StreamState returns it

	// Digest is the digest of the root table's current rows of the source; "" if it is unknown. The digest is also
	// unknown if something would stop a transaction that writes to the tables, for example a change by hand.
	Digest string
	Rows   int64 // number of rows that Digest covers

	// Forgotten says that a current row has no hash, so it must be written again; see [Tx]. It is known only if Digest
	// is known.
	Forgotten bool

	// Current has one row for each row that Digest covers, with the table's key, [schemas.ColHash] and
	// [Surveyed].Columns. It is nil if no columns were requested, or if one of them does not exist. It is also nil if
	// the tables of the survey together would have more than [MostCurrent] rows.
	Current arrow.RecordBatch

	Settled bool // a settlement has moved the cursor since the survey
}

// Settlement is the end of a pass that has changed no rows of its stream's tables.
type Settlement struct {
	Key      state.Key
	Expected state.Cursor // as in [Destination].Begin
	Next     state.Cursor
	Pass     Pass
	Rows     []OwnRows
}

// OwnRows are rows of one of penstock's own tables.
type OwnRows struct {
	Table schemas.Table
	Batch arrow.RecordBatch
}

// MostDigested is the greatest number of rows of a table for which a survey computes the digest. A run begins to read
// its source after the survey, so the survey must not take long.
const MostDigested = 20_000

// MostCurrent is the greatest number of rows, in all tables together, whose columns a survey keeps. The surveys of many
// sources may be in memory at the same time. // Invariant 6
const MostCurrent = 20_000

// RowDigest computes the digest of rows. Their order does not matter. The digest is the SHA-256 of their keys and
// hashes, so equal digests mean equal rows.
type RowDigest struct {
	rows []string
}

// ErrNoDigest reports that rows have no digest, because there are too many rows, or because of the type of their key.
var ErrNoDigest = errors.New("the rows have no digest")

// Digestible reports whether the rows of t can have a digest: each column of the key is an integer or a text.
func Digestible(t schemas.Table) bool {
	for _, k := range t.Key {
		if !plain(TypeOf(t.Columns, k)) {
			return false
		}
	}
	return t.Columns.HasField(schemas.ColHash)
}

// plain reports whether the values of a type are integers or texts.
func plain(t arrow.DataType) bool {
	return schemas.SameType(t, schemas.Int64) || schemas.SameType(t, schemas.Text)
}

// CurrentColumns returns the columns of [StreamSurvey].Current for a table that has a digest. It returns false if one
// of the named columns does not exist, or is neither an integer nor a text.
func CurrentColumns(t schemas.Table, named []string) (*arrow.Schema, bool) {
	names := append(slices.Clone(t.Key), schemas.ColHash)
	for _, n := range named {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	columns, err := Select(t.Columns, names)
	if err != nil {
		return nil, false
	}
	for _, f := range columns.Fields() {
		if !plain(schemas.TypeOf(f)) {
			return nil, false
		}
	}
	return columns, true
}

// Add adds the rows of a batch of the table t.
func (d *RowDigest) Add(t schemas.Table, b arrow.RecordBatch) error {
	if int64(len(d.rows))+b.NumRows() > MostDigested {
		return ErrNoDigest
	}
	var columns []arrow.Array
	for _, name := range append(slices.Clone(t.Key), schemas.ColHash) {
		i := b.Schema().FieldIndices(name)
		if len(i) != 1 {
			return ErrNoDigest
		}
		columns = append(columns, b.Column(i[0]))
	}
	for row := range int(b.NumRows()) {
		var text strings.Builder
		for i, c := range columns {
			var value string
			switch c := c.(type) {
			case *array.Int64:
				value = strconv.FormatInt(c.Value(row), 10)
			case *array.String:
				value = c.Value(row)
			default:
				return ErrNoDigest
			}
			if c.IsNull(row) {
				return ErrNoDigest
			}
			if i < len(columns)-1 {
				text.WriteString(strconv.Itoa(utf8.RuneCountInString(value)))
				text.WriteByte(':')
			}
			text.WriteString(value)
		}
		d.rows = append(d.rows, text.String())
	}
	return nil
}

// Rows returns the number of rows.
func (d *RowDigest) Rows() int64 { return int64(len(d.rows)) }

// Sum returns the digest.
func (d *RowDigest) Sum() string {
	slices.Sort(d.rows)
	h := sha256.New()
	for i, row := range d.rows {
		if i > 0 {
			h.Write([]byte{','})
		}
		h.Write([]byte(row))
	}
	return hex.EncodeToString(h.Sum(nil))
}
