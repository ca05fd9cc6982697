package schemas

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed events/streams.yaml
var eventFiles embed.FS

// Events maps types of webhook events to streams. It is safe for concurrent use.
type Events struct {
	gone  []string
	words map[string][]EventStream
}

// EventStream is a stream whose records are the subject of webhook events.
type EventStream struct {
	Name string
	Word string // first word of the events' types
	ID   string // form of the records' ids: EventText, EventNumber, or the prefix of a text
}

// Forms of the ids of records.
const (
	EventNumber = "number"
	EventText   = "text"
)

// LoadEvents returns the embedded mapping.
func LoadEvents() (*Events, error) { return loadEvents(eventFiles, "events/streams.yaml") }

func loadEvents(fsys fs.FS, name string) (*Events, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read events: %w", err)
	}
	var file struct {
		Gone    []string
		Streams map[string]struct {
			Words []string
			ID    string
		}
	}
	if err := decode(data, &file); err != nil {
		return nil, errors.Join(inFile(name, err)...)
	}
	e := &Events{gone: file.Gone, words: map[string][]EventStream{}}
	for _, stream := range slices.Sorted(maps.Keys(file.Streams)) {
		s := file.Streams[stream]
		if len(s.Words) == 0 {
			return nil, fmt.Errorf("%s: %s: no words", name, stream)
		}
		for _, w := range s.Words {
			e.words[w] = append(e.words[w], EventStream{Name: stream, Word: w, ID: s.ID})
		}
	}
	return e, nil
}

// maxEventType is the maximum length of a type that is looked up. All known types are far shorter.
const maxEventType = 200

// Of returns the streams whose records are the subject of events of this type. It returns none for an unknown type.
func (e *Events) Of(eventType string) []EventStream {
	if len(eventType) > maxEventType {
		return nil
	}
	t := strings.ToLower(strings.TrimSpace(eventType))
	for t != "" {
		if streams := e.words[t]; streams != nil {
			return streams
		}
		cut := strings.LastIndexAny(t, "._-: ")
		if cut < 0 {
			return nil
		}
		t = t[:cut]
	}
	return nil
}

// HasEvents reports whether some type of event is about the stream's records.
func (e *Events) HasEvents(stream string) bool {
	for _, streams := range e.words {
		if slices.ContainsFunc(streams, func(s EventStream) bool { return s.Name == stream }) {
			return true
		}
	}
	return false
}

// Gone reports whether events of this type mean that a record was deleted.
func (e *Events) Gone(eventType string) bool {
	last := strings.ToLower(eventType[strings.LastIndexAny(eventType, ".:-")+1:])
	return slices.ContainsFunc(e.gone, func(w string) bool { return last == w || strings.HasSuffix(last, "_"+w) })
}

// Fits reports whether id has the form of the ids of the stream's records. The parameter id is a JSON scalar.
func (s EventStream) Fits(id string) bool {
	switch s.ID {
	case EventText:
		return strings.HasPrefix(id, `"`)
	case EventNumber:
		n, err := strconv.ParseInt(id, 10, 64)
		return err == nil && n >= 0
	}
	return strings.HasPrefix(id, `"`+s.ID)
}
