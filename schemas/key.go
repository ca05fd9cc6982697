package schemas

import "regexp"

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
