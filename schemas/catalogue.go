package schemas

import (
	"errors"
	"slices"
)

// Catalogue is a valid set of endpoints: the streams, and the endpoints that no stream may request. It is immutable
// and safe for concurrent use.
type Catalogue struct {
	streams  []Stream
	index    map[string]int
	children map[string][]int
}

// NewCatalogue returns a catalogue of these streams. If there are problems, it returns one error that joins a [*Fault]
// for each problem.
func NewCatalogue(streams []Stream) (*Catalogue, error) {
	c := index(streams)
	if faults := c.validate(); len(faults) > 0 {
		return nil, join(faults, func(f *Fault) error { return f })
	}
	return c, nil
}

func index(streams []Stream) *Catalogue {
	c := &Catalogue{
		streams:  slices.Clone(streams),
		index:    make(map[string]int, len(streams)),
		children: make(map[string][]int),
	}
	for i, s := range c.streams {
		if _, ok := c.index[s.Name]; !ok {
			c.index[s.Name] = i
		}
		if s.Parent != "" {
			c.children[s.Parent] = append(c.children[s.Parent], i)
		}
	}
	return c
}

func join(faults []*Fault, convert func(*Fault) error) error {
	all := make([]error, len(faults))
	for i, f := range faults {
		all[i] = convert(f)
	}
	return errors.Join(all...)
}

// Streams returns all endpoints, including writes and sessions, in the order of the catalogue's files.
func (c *Catalogue) Streams() []Stream { return slices.Clone(c.streams) }

// Find returns the stream with this name.
func (c *Catalogue) Find(name string) (Stream, bool) {
	i, ok := c.index[name]
	if !ok {
		return Stream{}, false
	}
	return c.streams[i], true
}

// Children returns the streams whose parent has this name.
func (c *Catalogue) Children(name string) []Stream {
	var out []Stream
	for _, i := range c.children[name] {
		out = append(out, c.streams[i])
	}
	return out
}

// Ordered returns the readable streams. Each stream comes after its parent. Otherwise the order is that of
// [Catalogue.Streams].
func (c *Catalogue) Ordered() []Stream {
	out := make([]Stream, 0, len(c.streams))
	var add func(i int)
	add = func(i int) {
		if !c.streams[i].Readable() {
			return
		}
		out = append(out, c.streams[i])
		for _, child := range c.children[c.streams[i].Name] {
			add(child)
		}
	}
	for i, s := range c.streams {
		if s.Parent == "" {
			add(i)
		}
	}
	return out
}

// With returns a catalogue with the given streams added. A given stream replaces a stream of the same name.
func (c *Catalogue) With(streams ...Stream) (*Catalogue, error) {
	all := c.Streams()
	for _, s := range streams {
		if i, ok := c.index[s.Name]; ok {
			all[i] = s
			continue
		}
		all = append(all, s)
	}
	return NewCatalogue(all)
}
