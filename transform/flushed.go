package transform

// flushed are the pages of the batch that was handed away last. They stay where
// they are until the next page comes.
type flushed struct {
	raw   []byte
	pages []span
	first int64 // ordinal of the first record
}

// records calls each with those of the records whose ordinals are given, rising.
func (l *flushed) records(ordinals []int64, walk *walker, each func(ordinal int64, begin, end int)) {
	at := l.first
	for _, p := range l.pages {
		if len(ordinals) == 0 || l.raw == nil {
			return
		}
		i := space(l.raw, p.begin)
		for i = space(l.raw, i+1); i < p.end && l.raw[i] != ']' && len(ordinals) > 0; at++ {
			if l.raw[i] == ',' {
				i = space(l.raw, i+1)
			}
			end, _, ok := walk.value(l.raw, i)
			if !ok {
				return // it was read once, so it never is
			}
			if at == ordinals[0] {
				each(at, i, end)
				ordinals = ordinals[1:]
			}
			i = space(l.raw, end)
		}
	}
}
