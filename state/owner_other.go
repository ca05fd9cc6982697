//go:build !unix

package state

import "io/fs"

// fixed returns false, because it is unknown here whether a file system is mounted read-only.
func fixed(string) bool { return false }

// foreign returns false, because modes do not identify a file's owner here.
func foreign(fs.FileInfo) (owner uint32, other bool) { return 0, false }
