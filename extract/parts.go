package extract

import "iter"

// A page is taken in parts, so that what is made of a body of any size is never in memory
// beside all of it. A part has about so many bytes, and at most so many records.
// // Invariant 6
const (
	partBytes   = 4 << 20
	partRecords = 5_000
)

// cuts are offsets in a page's records at which a part of it begins.
type cuts struct {
	at     []int
	record int // how many records precede the last cut
}

// note cuts before the record at an offset, the n-th from 0, if the part is full.
func (c *cuts) note(offset, n int) {
	last := 0
	if len(c.at) > 0 {
		last = c.at[len(c.at)-1]
	}
	if n > 0 && (offset-last >= partBytes || n-c.record >= partRecords) {
		c.at, c.record = append(c.at, offset), n
	}
}

// Parts are the records in parts of a few megabytes, each a JSON array and its offset in
// Records. While a part is in use, Records has brackets around it: a part is valid until
// the next one is asked for, and Records is not to be used meanwhile.
func (p *Page) Parts() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		begin := 0
		for _, cut := range p.cuts {
			end := cut - 1
			for p.Records[end] != ',' {
				end-- // white space
			}
			if !p.part(begin, end+1, yield) {
				return
			}
			begin = end
		}
		p.part(begin, len(p.Records), yield)
	}
}

// part yields the records between two offsets, at which brackets or commas are.
func (p *Page) part(begin, end int, yield func(int, []byte) bool) bool {
	b := p.Records[begin:end]
	if len(p.cuts) > 0 {
		first, last := b[0], b[len(b)-1]
		b[0], b[len(b)-1] = '[', ']'
		defer func() { b[0], b[len(b)-1] = first, last }()
	}
	return yield(begin, b)
}
