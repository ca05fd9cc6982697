package encode

import (
	"encoding/binary"
	"math/bits"
)

func pack[T uint8 | uint32 | uint64](dst []byte, values []T, width uint) []byte {
	var acc uint64
	var n uint
	for _, v := range values {
		acc |= uint64(v) << n
		if n += width; n >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			n -= 64
			acc = uint64(v) >> (width - n)
		}
	}
	for ; n > 0; n -= min(n, 8) {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

const longRun = 8

// appendHybrid appends values in Parquet's hybrid encoding: long runs of a value as runs, other values as packed
// bits.
func appendHybrid[T uint8 | uint32](dst []byte, values []T, width uint) []byte {
	loose := 0
	for i := 0; i < len(values); {
		v, end := values[i], i+1
		for end < len(values) && values[end] == v {
			end++
		}
		fill := (i - loose) % 8 // packed values are written in groups of eight
		if fill > 0 {
			fill = 8 - fill
		}
		if end-i-fill >= longRun {
			dst = appendPacked(dst, values[loose:i+fill], width)
			dst = appendRun(dst, v, end-i-fill, width)
			loose = end
		}
		i = end
	}
	return appendPacked(dst, values[loose:], width)
}

func appendRun[T uint8 | uint32](dst []byte, v T, n int, width uint) []byte {
	dst = binary.AppendUvarint(dst, uint64(n)<<1)
	for range (width + 7) / 8 {
		dst = append(dst, byte(v))
		v = T(uint32(v) >> 8)
	}
	return dst
}

func appendPacked[T uint8 | uint32](dst []byte, values []T, width uint) []byte {
	if len(values) == 0 {
		return dst
	}
	whole := len(values) &^ 7
	dst = binary.AppendUvarint(dst, uint64(len(values)+7)/8<<1|1)
	dst = pack(dst, values[:whole], width)
	if whole < len(values) {
		var last [8]T
		copy(last[:], values[whole:])
		dst = pack(dst, last[:], width)
	}
	return dst
}

func appendLevels(dst []byte, levels []uint8, top uint8) []byte {
	at := len(dst)
	dst = appendHybrid(append(dst, 0, 0, 0, 0), levels, uint(bits.Len8(top)))
	binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// Each block of DELTA_BINARY_PACKED has deltaBlock values. Each part of a block has deltaPart values and its own bit
// width.
const (
	deltaBlock = 128
	deltaPart  = 32
)

// appendDeltas appends the differences of the values. A difference that overflows wraps around, as readers expect.
func appendDeltas(dst []byte, values []int64) []byte {
	dst = binary.AppendUvarint(dst, deltaBlock)
	dst = binary.AppendUvarint(dst, deltaBlock/deltaPart)
	dst = binary.AppendUvarint(dst, uint64(len(values)))
	if len(values) == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, values[0])
	last := values[0]
	var block [deltaBlock]int64
	for rest := values[1:]; len(rest) > 0; {
		n := min(len(rest), deltaBlock)
		for i, v := range rest[:n] {
			block[i], last = v-last, v
		}
		dst = appendDeltaBlock(dst, &block, n)
		rest = rest[n:]
	}
	return dst
}

func appendDeltaBlock(dst []byte, block *[deltaBlock]int64, n int) []byte {
	low := block[0]
	for _, d := range block[1:n] {
		low = min(low, d)
	}
	dst = binary.AppendVarint(dst, low)
	var above [deltaBlock]uint64
	for i, d := range block[:n] {
		above[i] = uint64(d - low)
	}
	widths := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	for i := 0; i < n; i += deltaPart {
		part := above[i : i+deltaPart]
		var all uint64
		for _, v := range part {
			all |= v
		}
		width := bits.Len64(all)
		dst[widths+i/deltaPart] = byte(width)
		if width > 0 {
			dst = pack(dst, part, uint(width))
		}
	}
	return dst
}
