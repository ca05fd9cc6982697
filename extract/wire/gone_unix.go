//go:build unix

package wire

import (
	"errors"
	"hash/fnv"
	"os"
	"sync"
	"syscall"
)

// processGone reports whether no process has this id. It cannot detect that another process has taken the id over;
// then the member expires by itself.
func processGone(pid int) bool { return pid > 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// pidNamespace identifies the process-id namespace of this process: containers and hosts that share a folder may use
// the same id for different processes. It is 0 if unknown.
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
