// Package jsondoc finds values in a JSON body without decoding the rest. It knows JSON, but not streams, records and
// pages.
package jsondoc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// node is one object or array of a scanned body. Nodes are sorted by their start. So if a node has children, the
// first child is the next node.
type node struct {
	start, end uint32 // offsets of the first byte, and of the byte after the last
	next       uint32 // index of the first node after the end of this node
}

// MaxNodes limits the memory of one body: at most 48 MiB for its nodes.
const MaxNodes = 1 << 22

// Doc is a JSON body with the offsets of its objects and arrays. With these offsets, a walk over the members skips a
// value of any size in one step, and decodes only the values that it needs.
//
// Scan only checks that strings end and brackets match. A truncated body fails this check. Walks check the other rules
// of JSON in the values that they visit.
type Doc struct {
	b      []byte
	nodes  []node
	open   []uint32 // while scanning: nodes without an end
	hashes []uint64 // memory for repeated(), kept for its next call
	err    error    // first error of a walk
}

var (
	errEmptyBody = errors.New("empty body")
	errCut       = errors.New("unexpected end of JSON")
)

// Scan finds the objects and arrays of a body. The body must not change as long as d is in use.
func (d *Doc) Scan(b []byte) error {
	d.b, d.nodes, d.open, d.err = b, d.nodes[:0], d.open[:0], nil
	if uint64(len(b)) > math.MaxUint32 {
		return errors.New("body too large")
	}
	root := skipSpace(b, 0)
	switch {
	case root == len(b):
		return errEmptyBody
	case b[root] != '{' && b[root] != '[':
		return fmt.Errorf("neither object nor list at offset %d", root)
	}
	if err := d.index(root); err != nil {
		return err
	}
	if len(d.open) > 0 {
		return errCut
	}
	if end := skipSpace(b, int(d.nodes[0].end)); end != len(b) {
		return fmt.Errorf("trailing bytes after the JSON at offset %d", end)
	}
	return nil
}

func (d *Doc) index(root int) error {
	var (
		b       = d.b
		inside  uint64 // all ones if a string continues in the next block
		escaped uint64 // 1 if the previous block ends with a backslash
		tail    [64]byte
	)
	for base := root; base < len(b); base += 64 {
		block := &tail
		if len(b)-base >= 64 {
			block = (*[64]byte)(b[base:])
		} else {
			copy(tail[:], b[base:])
		}
		quotes, slashes, brackets := masks(block)
		if slashes|escaped != 0 {
			var hidden uint64
			hidden, escaped = escapes(slashes, escaped)
			quotes &^= hidden
		}
		text := prefixXor(quotes) ^ inside
		inside = uint64(int64(text) >> 63)
		for m := brackets &^ text; m != 0; m &= m - 1 {
			if err := d.bracket(base + bits.TrailingZeros64(m)); err != nil {
				return err
			}
		}
	}
	if inside != 0 {
		return errCut
	}
	return nil
}

func (d *Doc) bracket(at int) error {
	switch c := d.b[at]; c {
	case '{', '[':
		if len(d.open) == 0 && len(d.nodes) > 0 {
			return fmt.Errorf("trailing bytes after the JSON at offset %d", at)
		}
		if len(d.nodes) == MaxNodes {
			return fmt.Errorf("more than %d objects and lists", MaxNodes)
		}
		if len(d.nodes) == cap(d.nodes) {
			d.grow(at)
		}
		d.open = append(d.open, uint32(len(d.nodes)))
		d.nodes = append(d.nodes, node{start: uint32(at)})
	case '}', ']':
		last := len(d.open) - 1
		if last < 0 {
			return fmt.Errorf("unexpected %q at offset %d", c, at)
		}
		n := &d.nodes[d.open[last]]
		if d.b[n.start]+2 != c { // in ASCII, '{' and '}' differ by two, as do '[' and ']'
			return fmt.Errorf("unexpected %q at offset %d", c, at)
		}
		n.end, n.next = uint32(at+1), uint32(len(d.nodes))
		d.open = d.open[:last]
	default:
		return fmt.Errorf("unexpected %q at offset %d", c, at)
	}
	return nil
}

// grow makes room for more nodes. It expects that the part of the body after the given offset has as many nodes per
// byte as the part before it.
func (d *Doc) grow(at int) {
	have := len(d.nodes)
	more := max(have, 64)
	if have >= 1024 {
		more = max(have/8, int(float64(have)*float64(len(d.b)-at)/float64(at+1)*1.02))
	}
	nodes := make([]node, have, have+min(more, MaxNodes-have)) // slices.Grow would take up to a quarter more
	copy(nodes, d.nodes)
	d.nodes = nodes
}

const (
	lows       = 0x7f7f7f7f7f7f7f7f
	eachQuote  = 0x2222222222222222
	eachSlash  = 0x5c5c5c5c5c5c5c5c
	eachOpen   = 0x5b5b5b5b5b5b5b5b // '['
	sameAsOpen = 0xd9d9d9d9d9d9d9d9 // bits that are equal in all four brackets
)

// masks returns three masks of the block: its quotes, its backslashes, and its brackets. Each mask has one bit per
// byte. The mask of brackets may also have bits for _, y, Y and DEL, but JSON has none of these outside strings.
//
// The block is handled as eight words of eight bytes. In each word, zeroBytes() sets the top bit of each matching byte.
// The results of the eight words are shifted by different distances and merged into one word. At the end, transpose()
// puts the bits into the order of the bytes.
func masks(block *[64]byte) (quotes, slashes, brackets uint64) {
	var anySlash uint64
	for i := uint(0); i < 8; i++ {
		w := binary.LittleEndian.Uint64(block[i*8 : i*8+8])
		quotes |= zeroBytes(w^eachQuote) >> (7 - i)
		brackets |= zeroBytes((w^eachOpen)&sameAsOpen) >> (7 - i)
		anySlash |= zeroBytes(w^eachSlash) >> (7 - i)
	}
	if anySlash != 0 {
		slashes = transpose(anySlash)
	}
	return transpose(quotes), slashes, transpose(brackets)
}

// transpose takes x as a matrix of 8 by 8 bits, and swaps its rows and columns.
func transpose(x uint64) uint64 {
	t := (x ^ x>>7) & 0x00aa00aa00aa00aa
	x ^= t ^ t<<7
	t = (x ^ x>>14) & 0x0000cccc0000cccc
	x ^= t ^ t<<14
	t = (x ^ x>>28) & 0x00000000f0f0f0f0
	return x ^ t ^ t<<28
}

// zeroBytes sets the top bit of each byte that is zero in x, and clears all other bits.
func zeroBytes(x uint64) uint64 { return ^((x&lows + lows) | x | lows) }

// escapes() returns a mask of the bytes that a backslash escapes. The second result is 1 if the first byte of the next
// block is escaped. Pass this result as the argument `carry` when you call escapes() for the next block.
func escapes(slashes, carry uint64) (hidden, next uint64) {
	hidden = carry
	slashes &^= carry
	for slashes != 0 {
		first := slashes & -slashes
		hidden |= first << 1
		next = first >> 63
		slashes &^= first | first<<1
	}
	return hidden, next
}

// prefixXor sets each bit to the parity of the bits up to and including it. So it turns a mask of quotes into a mask of
// the bytes inside strings. The opening quotes are included.
func prefixXor(x uint64) uint64 {
	x ^= x << 1
	x ^= x << 2
	x ^= x << 4
	x ^= x << 8
	x ^= x << 16
	return x ^ x<<32
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}
