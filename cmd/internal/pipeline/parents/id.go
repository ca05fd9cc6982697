package parents

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
)

// valuesOf formats each value of a tuple as rowhash.Text does. A tuple is a JSON array of the values that identify a
// parent, for example [7,"a"].
func valuesOf(tuple []byte) []string {
	var values []json.RawMessage
	if json.Unmarshal(tuple, &values) != nil {
		return []string{string(tuple)}
	}
	texts := make([]string, len(values))
	for i, v := range values {
		switch {
		case string(v) == "null":
		case v[0] == '"':
			_ = json.Unmarshal(v, &texts[i]) // cannot fail: it is a JSON string
		default:
			texts[i] = string(v)
		}
	}
	return texts
}

// idOf returns the id of a parent with these values. rowID must return the same id for a row of that parent.
func idOf(values []string) uint64 {
	var b []byte
	for _, v := range values {
		b = rowhash.AppendText(b, v)
	}
	return ID(b)
}

func tupleID(tuple []byte) uint64 { return idOf(valuesOf(tuple)) }

func rowID(context []arrow.Array, row int) uint64 {
	var b []byte
	for _, a := range context {
		b = rowhash.AppendText(b, rowhash.Text(a, row))
	}
	return ID(b)
}

func textID(text string) uint64 { return ID([]byte(text)) }

// ID returns a hash that is the same in every process. The hash decides in which passes a parent is requested.
func ID(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}
