package serve

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the machine's monotonic clock.
func monotonic() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
