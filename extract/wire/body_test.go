package wire

import (
	"bytes"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// A body that is longer than its Content-Length is still read. // Invariant 6
func TestBufferGrowsToTheLength(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 20<<20)
	for name, tt := range map[string]struct {
		said int64
		most int
	}{
		"the length is known": {20 << 20, 20<<20 + 1024},
		"nothing is known":    {-1, 33 << 20},
		"longer than stated":  {5 << 20, 33 << 20},
		"a little longer":     {20<<20 - 1024, 41 << 20},
		"shorter than stated": {60 << 20, 61 << 20},
	} {
		var m bufferPool
		b := m.buffer(tt.said)
		require.NoError(t, b.fill(iotest.OneByteReader(bytes.NewReader(nil)), 64<<20, nil))
		require.LessOrEqual(t, cap(b.mem), trustLength+512, "the buffer is small until bytes arrive")
		require.NoError(t, b.fill(bytes.NewReader(body), 64<<20, nil), name)
		require.Equal(t, body, b.text, name)
		require.LessOrEqual(t, cap(b.mem), tt.most, name)
	}
}
