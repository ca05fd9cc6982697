//go:build unix

package wire

import (
	"errors"
	"hash/fnv"
	"os"
	"sync"
	"syscall"
)

// processGone returns false if a new process has the id of the dead one; then the member expires by itself.
func processGone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// pidNamespace returns 0 if the namespace is unknown. Containers and hosts that share a folder may use the same
// process id for different processes.
var pidNamespace = sync.OnceValue(func() int64 {
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
