package config

// sighting is what a [reader] expects of a value, for example a list. It is observed while the [reader] reads the
// value. The JSON Schema is made from sightings, so only the code of the [reader] defines the format of the file.
type sighting struct {
	mapping   bool
	keys      []string // the keys that a mapping may have; nil: the user chooses the keys, such as names of sources
	needs     []string // keys that must be present
	fixedKeys []string // in a mapping whose keys the user chooses: the keys with a fixed meaning, such as `from` among the names of sources
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
