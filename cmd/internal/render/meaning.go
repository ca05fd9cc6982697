package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Meaning describes in words where a column's values come from: "name of its customer" for /customer/name.
func Meaning(f arrow.Field) string {
	if own := schemas.Meaning(f.Name); own != "" {
		return own
	}
	path := strings.Split(strings.TrimPrefix(schemas.Source(f), "/"), "/")
	if path[0] == "_context" && len(path) > 1 {
		if len(path) == 2 {
			return "the " + words(path[1]) + " it was read for"
		}
		return fmt.Sprintf("%s of the %s it was found in", words(strings.Join(path[2:], " ")), words(path[1]))
	}
	if path[0] == "" {
		return "the element itself"
	}
	slices.Reverse(path)
	for i := range path {
		path[i] = words(path[i])
	}
	return strings.Join(path, " of its ")
}

// words turns a field's name into words: "total amount" for total_amount.
func words(name string) string {
	return strings.NewReplacer("_", " ", "~1", "/", "~0", "~").Replace(name)
}

// ModeOf describes a table's mode and key.
func ModeOf(t schemas.Table) string {
	if len(t.Key) == 0 {
		return fmt.Sprintf("mode %s, without a key", t.Mode)
	}
	return fmt.Sprintf("mode %s, key %s", t.Mode, strings.Join(t.Key, ", "))
}

// maskOf returns the mask that the stream's rules apply to a column; "" if none.
func maskOf(s config.Stream, t schemas.Table, f arrow.Field) string {
	if schemas.Source(f) == "" {
		return ""
	}
	return s.Verdict(load.SourcePointer(t.Columns) + schemas.Source(f)).Mask.Action
}
