package parquet

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/penstock-data/penstock/load"
)

// CatalogName returns the name of a table in a catalog. Each stream has its own internal tables, so their names end with
// the name of the stream: _penstock_rejects__crm__leads. No name has a dot, because a dot separates the namespace from
// the table. Different tables have different names. // Invariant 17
func CatalogName(stream, table string) string {
	if load.IsInternal(table) {
		return table + "__" + streamIdentifier(stream)
	}
	return strings.NewReplacer("~", "~7E", ".", "~2E").Replace(table)
}

// HeadTable returns the name of a stream's head table in a catalog. Every commit of the stream changes this table, and
// records itself and the new cursor there.
func HeadTable(stream string) string { return CatalogName(stream, load.State.Name) }

// plainStream matches the name of a stream, such as crm.leads, and the folder of an internal stream, such as
// _run@nightly.
var plainStream = regexp.MustCompile(`^([a-z0-9]+(_[a-z0-9]+)*\.|_[a-z0-9]+(_[a-z0-9]+)*@)[a-z0-9]+(_[a-z0-9]+)*$`)

// longestStream limits the length of a stream's name in the name of a table. Catalogs in Postgres allow 255 bytes for
// the whole name.
const longestStream = 150

// streamIdentifier returns a name for the stream that consists of lower-case letters, digits and underscores, so that
// all engines can read it without quotes. In most names it only replaces the separator by two underscores. Other names
// get a hash after three underscores, which do not occur in the first kind of name. // Invariant 17
func streamIdentifier(stream string) string {
	if len(stream) <= longestStream && plainStream.MatchString(stream) {
		return strings.NewReplacer(".", "__", "@", "__").Replace(stream)
	}
	readable := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '_'
	}, strings.ToLower(stream))
	return fmt.Sprintf("%s___%016x", readable[:min(len(readable), longestStream)], xxh3.HashString(stream))
}
