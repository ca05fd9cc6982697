//go:build !linux

package serve

import "time"

// monotonic returns 0. Only systemd needs the clock, and systemd runs on Linux.
func monotonic() time.Duration { return 0 }
