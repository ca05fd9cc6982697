package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// ownColumns says what penstock's own columns mean.
var ownColumns = map[string]string{
	schemas.ColSyncedAt:  "time of the commit that wrote this row; it grows with every commit to the table",
	schemas.ColRun:       "the run that has written it",
	schemas.ColHash:      "hash of the record it came from",
	schemas.ColDeletedAt: "when the source was found not to have it any more; null while it stands",
	schemas.ColVia:       "how it came: poll, webhook or backfill",
	schemas.ColParent:    "key of the row it hangs from",
	schemas.ColIndex:     "its place in the parent's list, from 0",
	schemas.ColRoot:      "key of the record it is part of",
	schemas.ColRest:      "what of the record is beyond max_columns and max_tables of the stream",
	schemas.ColValidFrom: "when this version was first seen",
	schemas.ColValidTo:   "when the next version was, or that it was gone; null for the current one",
}

// meaning says where a column's values come from.
func meaning(f arrow.Field) string {
	if own, ok := ownColumns[f.Name]; ok {
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

// words makes a field's name readable.
func words(name string) string {
	return strings.NewReplacer("_", " ", "~1", "/", "~0", "~").Replace(name)
}

// modeOf tells a table's mode and key.
func modeOf(t schemas.Table) string {
	if len(t.Key) == 0 {
		return fmt.Sprintf("mode %s, without a key", t.Mode)
	}
	return fmt.Sprintf("mode %s, key %s", t.Mode, strings.Join(t.Key, ", "))
}

// maskOf is what the stream's rules make of a column's values; "" for nothing.
func maskOf(s config.Stream, t schemas.Table, f arrow.Field) string {
	if schemas.Source(f) == "" {
		return ""
	}
	return s.Verdict(load.Place(t.Columns) + schemas.Source(f)).Mask.Action
}
