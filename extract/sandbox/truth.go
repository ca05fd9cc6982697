package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// Truth returns the records that a complete reading of the stream must give. They are in the order of the list, in the
// form in which the sandbox serves them, and each has its `_context`. Truth takes them from the rows, without pages,
// links or cursors. For a child stream, it returns the records of all parents.
func (s *Server) Truth(stream string) ([]json.RawMessage, error) {
	st, ok := s.catalogue.Find(stream)
	if !ok {
		return nil, fmt.Errorf("truth of %s: no such stream", stream)
	}
	if !st.Readable() {
		return nil, fmt.Errorf("truth of %s: it is not readable", stream)
	}
	if s.contacts != nil && stream == "v2.contacts" {
		return s.contacts.truth()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	records, err := s.truth(st)
	if err != nil {
		return nil, fmt.Errorf("truth of %s: %w", stream, err)
	}
	return records, nil
}

func (s *Server) truth(st schemas.Stream) ([]json.RawMessage, error) {
	e := s.endpoints[st.Method+" "+st.Path]
	if e == nil {
		return nil, errors.New("the sandbox has no such endpoint")
	}
	if e.media != "" {
		return nil, nil
	}
	if e.month != "" { // a complete reading includes every month
		every := *e
		every.month, e = "", &every
	}
	asked, err := s.paramsOfAll(st)
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	for _, a := range asked {
		records, err := s.truthOf(st, e, a.params)
		if t, ok := errors.AsType[*refusal](err); ok && t.kind == missing {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			all = append(all, withContext(e.style().append(nil, r.object), e.contextOf(st, r, a.context)))
		}
	}
	return all, nil
}

type paramSet struct {
	params  params
	context object
}

func (s *Server) paramsOfAll(st schemas.Stream) ([]paramSet, error) {
	if st.Parent == "" {
		one := paramSet{params: params{}}
		for _, p := range st.Params {
			one.params[p.Name] = p.Value
		}
		return []paramSet{one}, nil
	}
	parent, ok := s.catalogue.Find(st.Parent)
	if !ok {
		return nil, fmt.Errorf("parent %s: no such stream", st.Parent)
	}
	records, err := s.truth(parent)
	if err != nil {
		return nil, fmt.Errorf("parent %s: %w", st.Parent, err)
	}
	var all []paramSet
	seen := map[string]bool{}
	for _, record := range records {
		for _, a := range paramSetsOf(st.Params, decodeRecord(record)) {
			key := fmt.Sprint(a.context)
			if !seen[key] {
				seen[key] = true
				all = append(all, a)
			}
		}
	}
	return all, nil
}

func (a *paramSet) add(name string, value any) {
	a.params[name] = textOf(value)
	a.context = append(a.context, member{name, value})
}

func paramSetsOf(declared []schemas.Param, record any) []paramSet {
	sets := []paramSet{{params: params{}}}
	for _, p := range declared {
		values := []any{p.Value}
		if p.From != "" {
			values = valuesAt(record, strings.Split(strings.TrimPrefix(p.From, "/"), "/"))
		}
		var next []paramSet
		for _, set := range sets {
			for _, v := range values {
				if v == nil {
					continue
				}
				more := paramSet{params: params{}, context: append(object{}, set.context...)}
				for name, value := range set.params {
					more.params[name] = value
				}
				more.add(p.Name, v)
				next = append(next, more)
			}
		}
		sets = next
	}
	return sets
}

func valuesAt(v any, path []string) []any {
	if len(path) == 0 {
		return []any{v}
	}
	var all []any
	switch v := v.(type) {
	case object:
		for _, m := range v {
			if path[0] == "*" || path[0] == m.name {
				all = append(all, valuesAt(m.value, path[1:])...)
			}
		}
	case list:
		for _, e := range v {
			if path[0] == "*" {
				all = append(all, valuesAt(e, path[1:])...)
			}
		}
	}
	return all
}

func decodeRecord(record json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(record))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic("sandbox: own record: " + err.Error())
	}
	return decode(v)
}

func (s *Server) truthOf(st schemas.Stream, e *endpoint, p params) ([]record, error) {
	switch {
	case e.lists != nil:
		var all []record
		for _, l := range e.lists {
			for _, row := range l.show(s.world) {
				all = append(all, record{object: row.(object), context: l.name})
			}
		}
		return all, nil
	case e.object == nil && e.idParam == "":
		return e.records(s.world, p), nil
	}
	out, err := s.payload(e, p)
	if err != nil {
		return nil, err
	}
	data := out.data
	if e.wrap != nil {
		data = e.wrap(s.world, p, data)
	}
	return recordsAt(st.Records, e.dialect.wrap(e.message, served{data: data}))
}

func recordsAt(places []string, document any) ([]record, error) {
	for _, place := range places {
		var path []string
		if place != "" {
			path = strings.Split(place[1:], "/")
		}
		found := valuesAt(document, path)
		if len(found) == 0 {
			continue
		}
		var all []record
		for _, v := range found {
			all = append(all, objectsIn(v)...)
		}
		return all, nil
	}
	return nil, nil
}

func objectsIn(v any) []record {
	var all []record
	switch v := v.(type) {
	case object:
		all = append(all, record{object: v})
	case list:
		for _, e := range v {
			if o, ok := e.(object); ok {
				all = append(all, record{object: o})
			}
		}
	}
	return all
}

func (e *endpoint) contextOf(st schemas.Stream, r record, asked object) object {
	var o object
	if st.Context != "" && r.context != nil {
		o = append(o, member{st.Context, r.context})
	}
	return append(o, asked...)
}

func withContext(record []byte, context object) json.RawMessage {
	if len(context) == 0 {
		return record
	}
	record = append(record[:len(record)-1], `,"_context":`...)
	if len(record) == len(`{,"_context":`) {
		record = append(record[:1], record[2:]...)
	}
	return append(utf8Style.append(record, context), '}')
}
