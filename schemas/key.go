package schemas

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// MaxKeyBytes is the maximum length of a record's key as JSON. Destinations find rows by an index, and an index entry
// in Postgres can have at most 2,704 bytes.
const MaxKeyBytes = 2000

// Indexed returns text in a form that fits into every index and still identifies a row of penstock's own tables. A
// long text is replaced by its beginning, length and hash.
func Indexed(text string) string {
	const most, shown = 800, 200
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", strings.ToValidUTF8(text[:shown], ""), len(text), sha256.Sum256([]byte(text)))
}

// KeyColumn returns the column for one part of a stated key. A part is the name of a column (`id`,
// `_context__stage`), a JSON pointer, or the name of a member in the source (`ID`, `objectId`, `first-name`).
func KeyColumn(part string) string {
	if columnName.MatchString(part) {
		return part
	}
	return Column(part)
}

var columnName = regexp.MustCompile(`^[a-z0-9_]+$|^[^A-Z/.\- ]+_[0-9a-f]{8}$`)

// KeyColumns returns the columns of a stated key, or nil if there is none.
func KeyColumns(parts []string) []string {
	var columns []string
	for _, p := range parts {
		columns = append(columns, KeyColumn(p))
	}
	return columns
}
