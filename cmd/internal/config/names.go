package config

import "slices"

// Names has the names that a configuration defines, each list in the order of the file.
type Names struct{ Sources, Destinations, Pipelines, Streams []string }

// ReadNames returns the names in a configuration, even if the configuration has errors. It resolves no ${…}, and reads
// no list of sources.
func ReadNames(data []byte) (n Names) {
	root := root(&reader{}, data, wholeFile)
	if !root.given() {
		return n
	}
	lists := map[string]*[]string{"sources": &n.Sources, "destinations": &n.Destinations, "pipelines": &n.Pipelines, "streams": &n.Streams}
	sections, _ := root.entries()
	for _, section := range sections {
		list, known := lists[section.key]
		if !known {
			continue
		}
		entries, _ := section.entries()
		for _, e := range entries {
			*list = append(*list, e.key)
		}
	}
	n.Sources = slices.DeleteFunc(n.Sources, func(name string) bool { return name == "from" || name == "template" }) // keys of a list of sources
	return n
}

// IsName reports whether s is a valid name of a source, destination or pipeline.
func IsName(s string) bool {
	for i, c := range s {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '-' && c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// IsModule reports whether s can be the module of a stream, which is the part of the stream's name before the dot.
// A stream's name may have 63 characters, so the module leaves space for the dot and a letter.
func IsModule(s string) bool { return moduleName.MatchString(s) && len(s) <= 61 }
