package config

// sighting is what was observed while the reader read a value, for example that the reader wants a list. The JSON
// Schema is made from sightings, so that the file's format is defined only once, by the reader.
type sighting struct {
	mapping   bool
	keys      []string // the keys that a mapping may have; nil: the user chooses the keys, such as names of sources
	needs     []string // keys that must be present
	fixedKeys []string // keys with a fixed meaning in a mapping whose other keys the user chooses: `from` beside the names of sources
	list      bool
	single    bool     // a text, number or boolean
	words     []string // the only words that are allowed
	number    bool     // a whole number from low to high
	low       int
	high      int
	null      bool // ~ is allowed
	refused   bool // the value has the wrong kind
}

func (s *sighting) add(o sighting) {
	s.mapping, s.list, s.single = s.mapping || o.mapping, s.list || o.list, s.single || o.single
	s.null, s.refused = s.null || o.null, s.refused || o.refused
	if o.keys != nil {
		s.keys = o.keys
	}
	s.needs, s.fixedKeys = append(s.needs, o.needs...), append(s.fixedKeys, o.fixedKeys...)
	if o.words != nil {
		s.words = o.words
	}
	if o.number {
		s.number, s.low, s.high = true, o.low, o.high
	}
}
