//go:build !unix

package state

import "io/fs"

// fixed reports false where this is not known.
func fixed(string) bool { return false }

// foreign reports false where modes do not tell who owns a file.
func foreign(fs.FileInfo) (owner uint32, other bool) { return 0, false }
