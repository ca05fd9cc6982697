package extract

import "iter"

// A page is processed in parts. So the data derived from a large body is never in memory all at once. // Invariant 6
const (
	partBytes   = 4 << 20
	partRecords = 5_000
)

type cuts struct {
	at     []int
	record int // number of records before the last cut
}

func (c *cuts) note(offset, n int) {
	last := 0
	if len(c.at) > 0 {
		last = c.at[len(c.at)-1]
	}
	if n > 0 && (offset-last >= partBytes || n-c.record >= partRecords) {
		c.at, c.record = append(c.at, offset), n
	}
}

// Parts yields the records in parts of a few megabytes. A part is a JSON array, and comes with its offset in Records.
// It is valid until the loop continues. Do not use Records during the loop: Parts replaces some bytes by brackets,
// and restores them later.
func (p *Page) Parts() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		begin := 0
		for _, cut := range p.cuts {
			end := cut - 1
			for p.Records[end] != ',' {
				end--
			}
			if !p.part(begin, end+1, yield) {
				return
			}
			begin = end
		}
		p.part(begin, len(p.Records), yield)
	}
}

// part yields the records between two offsets as an array. Records has a bracket or a comma at both offsets. part
// replaces them by brackets, and restores them.
func (p *Page) part(begin, end int, yield func(int, []byte) bool) bool {
	b := p.Records[begin:end]
	if len(p.cuts) > 0 {
		first, last := b[0], b[len(b)-1]
		b[0], b[len(b)-1] = '[', ']'
		defer func() { b[0], b[len(b)-1] = first, last }()
	}
	return yield(begin, b)
}
