package transform

import "github.com/penstock-data/penstock/transform/jsonscan"

// flushed has the pages of the last batch. The field `raw` is valid until the next page is appended.
type flushed struct {
	raw   []byte
	pages []span
	first int64 // ordinal of the first record
}

// records calls visit() for the records with the given ordinals. The ordinals must be in ascending order.
func (l *flushed) records(ordinals []int64, visit func(ordinal int64, begin, end int)) {
	var walk jsonscan.Walker
	at := l.first
	for _, p := range l.pages {
		if len(ordinals) == 0 || l.raw == nil {
			return
		}
		i := jsonscan.Space(l.raw, p.begin)
		for i = jsonscan.Space(l.raw, i+1); i < p.end && l.raw[i] != ']' && len(ordinals) > 0; at++ {
			if l.raw[i] == ',' {
				i = jsonscan.Space(l.raw, i+1)
			}
			end, _, ok := walk.Value(l.raw, i)
			if !ok {
				return // cannot happen, because the page was valid when it was first read
			}
			if at == ordinals[0] {
				visit(at, i, end)
				ordinals = ordinals[1:]
			}
			i = jsonscan.Space(l.raw, end)
		}
	}
}
