package parquet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linkInside is the error of a symbolic link where a lake has a file or folder of its own.
// Whoever may write to the lake could have others' files read through it, or written.
type linkInside struct{ path string }

// Error says what can be done where the link was made on purpose.
func (e *linkInside) Error() string {
	return fmt.Sprintf("%s is a symbolic link, and links inside a lake are not followed: "+
		"put what it leads to in its place, or mount it there; the lake's own folder may be a link", e.path)
}

// unlinked returns a [linkInside] where a part of path below root is a symbolic link. What
// is not there is none. The link to the current generation is read, never followed.
func unlinked(root, path string) error {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	for _, part := range strings.Split(rel, string(filepath.Separator)) {
		root = filepath.Join(root, part)
		info, err := os.Lstat(root)
		if err != nil {
			return ignoreGone(err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &linkInside{root}
		}
	}
	return nil
}
