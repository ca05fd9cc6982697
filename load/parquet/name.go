package parquet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"
)

const (
	current      = "current"
	manifestName = "_manifest.json"
	lockName     = "_lock"
	positionName = "_position.json" // see [position]
	suffix       = ".parquet"

	// Folders with these prefixes are still being written, or are being removed. The file patterns of readers do not
	// match them.
	tmpPrefix   = "_tmp-"
	trashPrefix = "_trash-"
	genPrefix   = "gen-"
)

const longestFolder = 180

// folderOf returns the folder name of a stream or table. Bytes that are special in file systems or file patterns are
// written as %XX. Different names have different folders. Invariant 17
func folderOf(name string) string {
	var b strings.Builder
	for i := range len(name) {
		c := name[i]
		if plain(c) && (i > 0 || c != '.') {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "%"
	}
	if s := b.String(); b.Len() > longestFolder {
		return fmt.Sprintf("%s%%%016x", s[:longestFolder], xxh3.HashString(name))
	}
	return b.String()
}

// locationName returns the folder name for lakes with a catalog. Engines find the files of such lakes by location,
// and some decode %XX. So % is replaced by ~, which occurs in no other folder name. Invariant 17
func locationName(folder string) string { return strings.ReplaceAll(folder, "%", "~") }

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

func genName(sequence int64) string { return fmt.Sprintf("%s%08d", genPrefix, sequence) }

func genNumber(name string) (sequence int64, ok bool) {
	digits, ok := strings.CutPrefix(name, genPrefix)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(digits, "%d", &sequence)
	return sequence, err == nil && genName(sequence) == name
}

// fileName returns a name that no other file has. If names were used again, a reader that has listed the files of one
// generation could open a file of another generation with the same name.
func fileName(sequence int64) string {
	return fmt.Sprintf("%08d-%s%s", sequence, randomName(), suffix)
}

func randomName() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
