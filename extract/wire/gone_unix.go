//go:build unix

package wire

import (
	"errors"
	"hash/fnv"
	"os"
	"sync"
	"syscall"
)

// processGone reports whether no process has this id. If a new process has the id of the dead one, processGone returns
// false; then the member expires by itself.
func processGone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// pidNamespace returns a number that identifies the process-id namespace of this process, or 0 if unknown. Containers
// and hosts that share a folder may use the same process id for different processes.
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
