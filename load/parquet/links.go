package parquet

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linkInside is the error for a symbolic link inside a lake. Penstock does not follow such links. Otherwise users
// with write access to the lake could make penstock read or write files of other users.
type linkInside struct{ path string }

// Error says what to do if the link was created on purpose.
func (e *linkInside) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed inside a lake: "+
		"replace the link by its target, or mount the target there; only the lake's own folder may be a link", e.path)
}

// unlinked returns a [linkInside] if a part of path below root is a symbolic link. Parts that do not exist are
// accepted. Penstock reads where the link to the current generation leads, but never opens files through it.
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
