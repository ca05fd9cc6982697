//go:build !linux

package serve

import "time"

// monotonic is asked for by systemd alone, which runs on Linux.
func monotonic() time.Duration { return 0 }
