package open

import (
	"cmp"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// DefaultHeap is the size of the Go heap that the garbage collector aims for while no run is in progress, in bytes. Most
// of the heap is column buffers. They are large, short-lived and without pointers, so frequent collections are cheap.
// Invariant 6
const DefaultHeap = 128 << 20

// leastHeap is the smallest heap size under a memory limit of a cgroup. A smaller heap would only cost CPU.
const leastHeap = 32 << 20

// heapUse has the runs in progress. Their needs decide the size of the heap.
type heapUse struct {
	mu   sync.Mutex
	runs map[*Run]MemoryPlan
	most int64 // largest heap size that the limit of the cgroup allows; 0 until the limit is read
}

// KeepDefaultHeap sets the size of the heap for a process that has no run in progress, unless GOMEMLIMIT is set.
func KeepDefaultHeap() { keepHeap(min(DefaultHeap, heapShare(memoryLimit(os.DirFS("/"))))) }

func keepHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// add adds r to the runs in progress, and adjusts the heap size.
func (u *heapUse) add(r *Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.runs == nil {
		u.runs, u.most = map[*Run]MemoryPlan{}, heapShare(memoryLimit(os.DirFS("/")))
	}
	u.runs[r] = r.Memory
	u.keep()
}

// remove removes r from the runs in progress, and adjusts the heap size.
func (u *heapUse) remove(r *Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.runs[r]; ok {
		delete(u.runs, r)
		u.keep()
	}
}

func (u *heapUse) keep() {
	var plans []MemoryPlan
	for _, p := range u.runs {
		plans = append(plans, p)
	}
	keepHeap(min(heapFor(plans), u.most))
}

// heapFor returns the heap size for the runs in progress. It is the size that the most demanding destination needs,
// plus a share for each list that the runs read at the same time, plus the size of the answers that they request in
// advance. Without these shares, the garbage collector would run all the time.
func heapFor(plans []MemoryPlan) (bytes int64) {
	var shares int64
	for _, p := range plans {
		bytes = max(bytes, cmp.Or(p.Heap, DefaultHeap))
		shares += int64(p.Lists)*p.List + p.Ahead
	}
	if bytes == 0 {
		bytes = DefaultHeap
	}
	return bytes + shares
}

// heapShare returns the largest heap size for a process that may use the given amount of memory: half of that amount.
// The other half is for the program itself and for the engine of a DuckDB destination. If memory is 0, there is no limit.
func heapShare(memory int64) int64 {
	if memory == 0 {
		return math.MaxInt64
	}
	return max(memory/2, leastHeap)
}

// memoryLimit returns the lowest memory limit of the cgroups (version 1 or 2) of this process, or 0 if there is none.
// The parameter `root` is the root of the file system.
func memoryLimit(root fs.FS) (lowest int64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		var folder, file string
		switch {
		case parts[1] == "":
			folder, file = "sys/fs/cgroup", "memory.max"
		case strings.Contains(","+parts[1]+",", ",memory,"):
			folder, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container, the folder of the group may be mounted as the root, so the limits of the parent folders are
		// read too.
		for group := path.Clean("/" + parts[2]); ; group = path.Dir(group) {
			if n := readLimit(root, path.Join(folder, group, file)); n > 0 && (lowest == 0 || n < lowest) {
				lowest = n
			}
			if group == "/" {
				break
			}
		}
	}
	return lowest
}

// A limit of noLimit or more counts as no limit. Version 1 of cgroups has such a number in the file of a group without
// a limit.
const noLimit = 1 << 60

func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n >= noLimit {
		return 0 // the text is "max", or the number means "no limit"
	}
	return n
}
