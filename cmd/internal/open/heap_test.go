package open

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// TestHeapFollowsTheLists: the heap grows with the lists that all runs read. Of the needs of the destinations, only the
// largest counts.
func TestHeapFollowsTheLists(t *testing.T) {
	t.Parallel()
	small, large := MemoryPlan{Heap: 38 << 20, List: 5 << 20}, MemoryPlan{Heap: 208 << 20, List: 4 << 20}
	reads := func(p MemoryPlan, lists int) MemoryPlan {
		p.Lists = lists
		return p
	}
	for name, c := range map[string]struct {
		runs []MemoryPlan
		mib  int64
	}{
		"no run":                             {nil, 128},
		"one list":                           {[]MemoryPlan{reads(small, 1)}, 43},
		"eight lists":                        {[]MemoryPlan{reads(small, 8)}, 78},
		"two sources":                        {[]MemoryPlan{reads(small, 8), reads(small, 8)}, 118},
		"two destinations":                   {[]MemoryPlan{reads(small, 1), reads(large, 8)}, 245},
		"a kind without a plan":              {[]MemoryPlan{{}}, 128},
		"a kind with a plan and one without": {[]MemoryPlan{{}, reads(small, 1)}, 133},
		"answers in advance":                 {[]MemoryPlan{reads(MemoryPlan{Heap: 38 << 20, List: 5 << 20, Ahead: 16 << 20}, 2)}, 64},
		"one run into two destinations":      {[]MemoryPlan{reads(small.with(large), 2)}, 218},
	} {
		require.Equal(t, c.mib<<20, heapFor(c.runs), name)
	}
}

// TestAheadOfTwoDestinations: two destinations limit the answers that the run requests in advance. The larger limit
// counts. The default counts as larger than any other limit.
func TestAheadOfTwoDestinations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want int64 }{{0, 16, 0}, {16, 0, 0}, {16, 8, 16}, {0, 0, 0}} {
		require.Equal(t, c.want, MemoryPlan{Ahead: c.a}.with(MemoryPlan{Ahead: c.b}).Ahead, c)
	}
}

func TestHeapTakesHalfOfTheMemory(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, math.MaxInt64, heapShare(0))
	require.EqualValues(t, 256<<20, heapShare(512<<20))
	require.EqualValues(t, leastHeap, heapShare(40<<20))
}

// TestMemoryLimit: of the limits of a group and its parents, the lowest counts. This holds for both versions of
// cgroups.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for name, c := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"no cgroups": {fstest.MapFS{}, 0},
		"version 2, without a limit": {fstest.MapFS{
			"proc/self/cgroup": file("0::/user.slice/a\n"), "sys/fs/cgroup/user.slice/a/memory.max": file("max\n"),
		}, 0},
		"version 2, limit of the parent": {fstest.MapFS{
			"proc/self/cgroup": file("0::/user.slice/a\n"), "sys/fs/cgroup/user.slice/a/memory.max": file("900000000\n"),
			"sys/fs/cgroup/user.slice/memory.max": file("500000000\n"),
		}, 500000000},
		"version 2, in a container": {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("300000000\n")}, 300000000},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup": file("5:cpu,cpuacct:/x\n4:memory:/docker/b\n0::/\n"),
			"sys/fs/cgroup/memory/docker/b/memory.limit_in_bytes": file("200000000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          file("9223372036854771712\n"),
		}, 200000000},
		"version 1, in a container": {fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/docker/b\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("400000000\n"),
		}, 400000000},
		"version 1, without a limit": {fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n"),
		}, 0},
	} {
		require.Equal(t, c.want, memoryLimit(c.files), name)
	}
}
