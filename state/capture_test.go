package state

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

type captures struct {
	all  []Captured
	next int64
}

func (c *captures) come(from string, likely bool, size int) {
	more := Captured{From: from, Likely: likely, Size: size}
	gone := CaptureRoom(c.all, more)
	c.all = slices.DeleteFunc(c.all, func(k Captured) bool { return slices.Contains(gone, k.Capture) })
	c.next++
	more.Capture = c.next
	c.all = append(c.all, more)
}

func (c *captures) of(from string) int { return countOf(c.all, from) }

func TestCaptureRoom(t *testing.T) {
	for name, junk := range map[string]func(i int) (from string, likely bool, size int){
		"one address":                        func(int) (string, bool, int) { return "evil", true, 10 },
		"large captures of one address":      func(int) (string, bool, int) { return "evil", true, 1 << 20 },
		"few addresses":                      func(i int) (string, bool, int) { return fmt.Sprint("evil", i%15), true, 10 },
		"a thousand addresses, not signed":   func(i int) (string, bool, int) { return fmt.Sprint("evil", i%1000), false, 10 },
		"unsigned, the sender's own address": func(int) (string, bool, int) { return "sender", false, 10 },
	} {
		t.Run(name, func(t *testing.T) {
			c := &captures{}
			flood := func(n int) {
				for i := range n {
					c.come(junk(i))
					size := 0
					for _, k := range c.all {
						size += k.Size
					}
					require.LessOrEqual(t, len(c.all), CaptureLimit)
					require.LessOrEqual(t, size, CaptureBytes)
				}
			}
			flood(1000)
			for range 3 {
				c.come("sender", true, 500)
				flood(300)
			}
			n := 0
			for _, k := range c.all {
				if k.From == "sender" && k.Likely {
					n++
				}
			}
			require.Equal(t, 3, n)
		})
	}
	c := &captures{}
	for range 50 {
		c.come("sender", true, 500)
	}
	require.Equal(t, captureEach, c.of("sender"), "as many captures of the sender are stored as captureEach allows")
	require.EqualValues(t, 50, c.all[len(c.all)-1].Capture, "the newest capture is stored")
}
