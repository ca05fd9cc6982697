//go:build !linux

package serve

import "time"

// monotonic returns 0. Only systemd needs it, which runs on Linux.
func monotonic() time.Duration { return 0 }
