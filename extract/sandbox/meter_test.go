package sandbox

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimiterFixed(t *testing.T) {
	t.Parallel()
	l := newLimiter(Rate{Requests: 3, Window: time.Second}, Fixed)
	for i, ms := range []int{900, 950, 999} {
		v := l.take("key", time.Duration(ms)*time.Millisecond)
		require.True(t, v.ok)
		require.Equal(t, 2-i, v.remaining)
	}
	v := l.take("key", 999*time.Millisecond)
	require.False(t, v.ok)
	require.Equal(t, time.Millisecond, v.reset)
	for range 3 {
		require.True(t, l.take("key", time.Second).ok)
	}
	require.False(t, l.take("key", 1999*time.Millisecond).ok)
}

func TestLimiterBucket(t *testing.T) {
	t.Parallel()
	l := newLimiter(Rate{Requests: 4, Window: time.Second}, Bucket)
	for i := range 4 {
		v := l.take("key", 0)
		require.True(t, v.ok)
		require.Equal(t, 3-i, v.remaining)
	}
	v := l.take("key", 100*time.Millisecond)
	require.False(t, v.ok)
	require.Equal(t, 150*time.Millisecond, v.reset)
	require.True(t, l.take("key", 250*time.Millisecond).ok)
	require.False(t, l.take("key", 251*time.Millisecond).ok)
	for range 4 {
		require.True(t, l.take("key", time.Minute).ok)
	}
	require.False(t, l.take("key", time.Minute).ok)
}

func TestUnknownCounting(t *testing.T) {
	t.Parallel()
	_, err := New(Options{Counting: "leaky"})
	require.ErrorContains(t, err, `unknown counting method "leaky": want sliding, fixed or bucket`)
}
