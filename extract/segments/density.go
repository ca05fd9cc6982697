package segments

// recent is the weight that the earlier pages of a segment have in its density. The last page has the weight 1.
const recent = 0.75

// density describes some pages of the list: the distance that they cover on the [scale], and their number. Records may
// come in bursts, so the density of one page says little about the next pages.
type density struct{ distance, pages float64 }

// span returns the average distance that a page covers.
func (d density) span() float64 {
	if d.pages == 0 {
		return 1
	}
	return max(d.distance/d.pages, 1)
}

// plus returns the density of two parts of the list together.
func (d density) plus(e density) density { return density{d.distance + e.distance, d.pages + e.pages} }

// times returns the density with its weight multiplied by f.
func (d density) times(f float64) density { return density{f * d.distance, f * d.pages} }

// measure adds a page to the density d of a segment, and to the density of the list. The argument `after` is the key of
// the record before the page, or "" if the page is the answer to a guess. An answer to a guess often begins after a
// part without records. So in the density of the segment, this page counts only half. In the density of the list, it
// counts only if no page was measured before.
func (p *Plan) measure(d density, after string, keys []string) density {
	begin := keys[0]
	n := float64(len(keys) - 1)
	first, _ := p.scale.place(begin)
	last, _ := p.scale.place(keys[len(keys)-1])
	if p.dense = p.dense && float64(last-first) == n; after != "" {
		first, _ = p.scale.place(after)
		n++
	}
	if n == 0 {
		return d
	}
	page := density{float64(last - first), n / float64(p.size)}
	if after != "" || p.all.pages == 0 {
		p.all = p.all.plus(page)
	} else {
		page = page.times(0.5)
	}
	return d.times(recent).plus(page)
}

// between estimates the distance that a page covers between two segments.
func (p *Plan) between(left, right density) float64 {
	usual := density{p.all.span(), 1}
	return left.plus(right).plus(usual).span()
}
