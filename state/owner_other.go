//go:build !unix

package state

import "io/fs"

// fixed() returns false, because this system does not report whether a file system is mounted read-only.
func fixed(string) bool { return false }

// foreign() returns false, because file modes do not identify the owner on this system.
func foreign(fs.FileInfo) (owner uint32, other bool) { return 0, false }
