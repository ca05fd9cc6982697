package failure

import (
	"errors"
	"io/fs"
)

// PathCause returns the cause of a file system error without the path, for messages that already name the path.
func PathCause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
