//go:build !unix

package main

import "io/fs"

// narrowUmask does nothing, because files have no modes on this system.
func narrowUmask() fs.FileMode { return 0 }
