//go:build unix

package wire

import (
	"errors"
	"hash/fnv"
	"os"
	"sync"
	"syscall"
)

// gone reports whether there is no process with this number any more. A number
// that another one has by now is not told apart: its place is freed later.
func gone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// home tells apart the places in which one number means two processes, such as
// containers or hosts with a folder in common; 0 where that cannot be told.
var home = sync.OnceValue(func() int64 {
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(space))
	_, _ = h.Write(boot)
	return int64(h.Sum64())
})
