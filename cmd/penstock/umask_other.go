//go:build !unix

package main

import "io/fs"

// narrowUmask does nothing: files have no modes here.
func narrowUmask() fs.FileMode { return 0 }
