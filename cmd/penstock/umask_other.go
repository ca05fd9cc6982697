//go:build !unix

package main

import "io/fs"

// narrowUmask does nothing where files have no modes.
func narrowUmask() fs.FileMode { return 0 }
