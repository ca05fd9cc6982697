package parquet

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"
)

// current is the link to the generation that counts, manifestName the file in
// each that tells what it holds.
const (
	current      = "current"
	manifestName = "_manifest.json"
	lockName     = "_lock"
	positionName = "_position.json" // see [position]
	suffix       = ".parquet"

	// Folders with these prefixes are being written, or on their way out. No
	// reader's pattern matches them.
	tmpPrefix   = "_tmp-"
	trashPrefix = "_trash-"
	genPrefix   = "gen-"
)

// longestFolder leaves room for what file systems allow a name to have.
const longestFolder = 180

// folderOf is the folder for a stream or a table: its name, with all bytes
// written as %XX that file systems or patterns of file names give a meaning.
// No two names share one. // Invariant 17
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

// located is a folder's name for those who are told where files are as locations:
// some of them take %XX for the byte itself. No other name has a ~ in it.
// // Invariant 17
func located(folder string) string { return strings.ReplaceAll(folder, "%", "~") }

func plain(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// genName is the folder of a generation.
func genName(sequence int64) string { return fmt.Sprintf("%s%08d", genPrefix, sequence) }

// genNumber is the sequence in the name of a generation's folder.
func genNumber(name string) (sequence int64, ok bool) {
	digits, ok := strings.CutPrefix(name, genPrefix)
	if !ok {
		return 0, false
	}
	_, err := fmt.Sscanf(digits, "%d", &sequence)
	return sequence, err == nil && genName(sequence) == name
}

// fileName is a name no file has had before: a reader that has listed one
// generation must never open a file of another by the same name.
func fileName(sequence int64) string {
	return fmt.Sprintf("%08d-%s%s", sequence, randomName(), suffix)
}

func randomName() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
