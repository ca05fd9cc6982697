package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

type bound struct {
	schemas.Param
	value []byte // JSON scalar; nil to leave out the parameter
}

func (b bound) text() string {
	return jsondoc.TextOf(b.value)
}

func constants(s schemas.Stream) ([]bound, error) {
	var out []bound
	for _, p := range s.Params {
		switch {
		case p.From != "" && s.Parent == "":
			return nil, fmt.Errorf("parameter %s: its value comes from %s, but the stream has no parent", p.Name, p.From)
		case p.Value == "" && p.From == "" && p.In == "path":
			return nil, fmt.Errorf("parameter %s: no value", p.Name)
		case p.Value != "":
			out = append(out, bound{p, constantJSON(p.Value)})
		}
	}
	return out, nil
}

func constantJSON(v string) []byte {
	if jsondoc.IsLiteral([]byte(v)) {
		return []byte(v)
	}
	q, _ := json.Marshal(v)
	return q
}

func request(s schemas.Stream, params []bound, p paging.Position) wire.Request {
	r := wire.Request{
		Method:    s.Method,
		Path:      s.Path,
		Anonymous: s.Auth == schemas.AuthNone,
		File:      s.Class == schemas.ClassFile,
	}
	body := make(map[string]json.RawMessage)
	for _, b := range params {
		switch {
		case b.value == nil:
		case b.In == "path":
			if r.Params == nil {
				r.Params = make(map[string]string)
			}
			r.Params[b.Name] = b.text()
		case b.In == "body":
			body[b.Name] = b.value
		default:
			setQuery(&r, b.Name, b.text())
		}
	}
	set := func(name, value string) {
		if s.Method == http.MethodPost && !s.Pagination.Query {
			setBody(body, name, value)
		} else {
			setQuery(&r, name, value)
		}
	}
	if s.Pagination.Size != "" && s.Pagination.Limit > 0 {
		set(s.Pagination.Size, strconv.Itoa(s.Pagination.Limit))
	}
	if order, err := url.ParseQuery(s.Pagination.Order); err == nil {
		for name := range order {
			set(name, order.Get(name))
		}
	}
	r.Range = p.Send(set)
	if extra, err := url.ParseQuery(p.Extra); err == nil {
		for name := range extra {
			if p.Placed {
				set(name, extra.Get(name))
				continue
			}
			setQuery(&r, name, extra.Get(name))
			setBody(body, name, extra.Get(name))
		}
	}
	if s.Method == http.MethodPost {
		r.Body, _ = json.Marshal(body)
	}
	return r
}

func setBody(body map[string]json.RawMessage, name, value string) {
	in, member, ok := paging.CutBracket(name)
	if !ok {
		body[name] = constantJSON(value)
		return
	}
	inner := map[string]json.RawMessage{}
	if json.Unmarshal(body[in], &inner) != nil {
		inner = map[string]json.RawMessage{}
	}
	inner[member] = constantJSON(value)
	body[in], _ = json.Marshal(inner)
}

func setQuery(r *wire.Request, name, value string) {
	if r.Query == nil {
		r.Query = make(url.Values)
	}
	r.Query.Set(name, value)
}

// contextMembers returns the JSON members that are added to the context of each record. They are the parameters from
// a parent, and parameters that are part of the key, such as the month.
func contextMembers(s schemas.Stream, params []bound) []byte {
	var out []byte
	for _, b := range params {
		if b.value == nil || b.From == "" && !slices.Contains(s.Key, schemas.Column("/"+records.ContextKey+"/"+b.Name)) {
			continue
		}
		if len(out) > 0 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(b.Name)
		out = append(append(append(out, name...), ':'), b.value...)
	}
	return out
}

func fedOf(s schemas.Stream) []schemas.Param {
	return slices.DeleteFunc(slices.Clone(s.Params), func(p schemas.Param) bool { return p.From == "" })
}

// bind returns all parameters of a request. The argument `line` is a tuple as JSON: the values of the parameters in
// fed. If a value is too long for a request, bind returns a [*wire.Error] of class Refused.
func bind(s schemas.Stream, fed []schemas.Param, line string) ([]bound, error) {
	params, err := constants(s)
	if err != nil {
		return nil, err
	}
	values, err := valuesFor(fed, []byte(line))
	if err != nil {
		return nil, fmt.Errorf("stream %s: read stored parameters: %w", s.Name, err)
	}
	for _, v := range values {
		if v.value[0] == '[' { // tupleValue() has made an array of a value that is too long
			return nil, &wire.Error{Class: wire.Refused, Method: s.Method, Path: s.Path, Message: fmt.Sprintf("parameter %s: the value is longer than %d bytes", v.Name, maxTupleValue)}
		}
	}
	return append(params, values...), nil
}

func valuesFor(fed []schemas.Param, line []byte) (params []bound, err error) {
	d := new(jsondoc.Doc)
	if err := d.Scan(line); err != nil {
		return nil, err
	}
	at := 0
	for v := range d.Elements(d.Root()) {
		if at < len(fed) && d.Kind(v) != 'n' {
			params = append(params, bound{fed[at], d.Raw(v)})
		}
		at++
	}
	return params, d.Err()
}

// maxTupleValue limits the JSON of a parent's value in a request, in bytes. // Invariant 6
const maxTupleValue = 64 << 10
