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

	// Folders with these prefixes are being written or removed. The patterns that readers use do not match them.
	tmpPrefix   = "_tmp-"
	trashPrefix = "_trash-"
	genPrefix   = "gen-"
)

const longestFolder = 180

// folderOf writes bytes that are special to file systems or file name patterns as %XX. The mapping is
// injective.
// Invariant 17
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

// locationName is for engines that find files by location, because some of them decode %XX. No other name
// contains a ~.
// Invariant 17
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

// fileName returns a name that no other file has. Otherwise a reader that has listed the files of one
// generation could open a file of another.
func fileName(sequence int64) string {
	return fmt.Sprintf("%08d-%s%s", sequence, randomName(), suffix)
}

func randomName() string {
	var b [6]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
