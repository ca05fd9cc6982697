package schemas

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
)

// MaxKeyBytes is how long the key of a record may be, as JSON: rows are found by an index,
// and that of Postgres takes 2,704 bytes in all.
const MaxKeyBytes = 2000

// Indexed returns a text that identifies a row of penstock's own tables such that every
// index can hold it: of a longer one its beginning, its length and a hash.
func Indexed(text string) string {
	const most, shown = 800, 200
	if len(text) <= most {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes, SHA-256 %x)", strings.ToValidUTF8(text[:shown], ""), len(text), sha256.Sum256([]byte(text)))
}

// KeyColumn is the column that one part of a stated key means. A part is the
// column's own name (`id`, `_context__stage`), a JSON pointer, or a member's name
// as the source spells it (`ID`, `objectId`, `first-name`).
func KeyColumn(part string) string {
	if columnName.MatchString(part) {
		return part
	}
	return Column(part)
}

// columnName matches what [Column] makes of names: plain ones, and those with a
// hash as their suffix.
var columnName = regexp.MustCompile(`^[a-z0-9_]+$|^[^A-Z/.\- ]+_[0-9a-f]{8}$`)

// KeyColumns are the columns of a stated key; nil for none.
func KeyColumns(parts []string) []string {
	var columns []string
	for _, p := range parts {
		columns = append(columns, KeyColumn(p))
	}
	return columns
}
