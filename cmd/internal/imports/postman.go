package imports

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// collection has those parts of a Postman collection that are read. The format is 2.0 or 2.1.
type collection struct {
	Info struct {
		Name   string `json:"name"`
		Schema string `json:"schema"`
	} `json:"info"`
	Item     []folder   `json:"item"`
	Variable []variable `json:"variable"`
	Auth     *struct{}  `json:"auth"`
}

// folder is a folder of requests, or one request.
type folder struct {
	Name        string   `json:"name"`
	Description text     `json:"description"`
	Item        []folder `json:"item"`
	Request     *request `json:"request"`
	Response    []saved  `json:"response"`
}

type variable struct {
	Key   string `json:"key"`
	ID    string `json:"id"`
	Value any    `json:"value"`
}

type request struct {
	Method      string  `json:"method"`
	URL         address `json:"url"`
	Description text    `json:"description"`
	Auth        *struct {
		Type string `json:"type"`
	} `json:"auth"`
}

// UnmarshalJSON accepts an object, or a text with only the URL.
func (r *request) UnmarshalJSON(b []byte) error {
	type plain request
	if b[0] == '"' {
		r.Method = "GET"
		return json.Unmarshal(b, &r.URL)
	}
	return json.Unmarshal(b, (*plain)(r))
}

type address struct {
	Raw   string `json:"raw"`
	Query []struct {
		Key      string `json:"key"`
		Disabled bool   `json:"disabled"`
	} `json:"query"`
}

// UnmarshalJSON accepts a URL as a text or an object.
func (a *address) UnmarshalJSON(b []byte) error {
	type plain address
	if b[0] == '"' {
		return json.Unmarshal(b, &a.Raw)
	}
	return json.Unmarshal(b, (*plain)(a))
}

// text is a description: a text, or an object with the text in its member `content`.
type text string

// UnmarshalJSON accepts either form.
func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] != '{' {
		return json.Unmarshal(b, (*string)(t))
	}
	var o struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(b, &o)
	*t = text(o.Content)
	return err
}

// saved is an example answer stored with a request.
type saved struct {
	Code int    `json:"code"`
	Body string `json:"body"`
}

// Postman reads a Postman collection, format 2.0 or 2.1. The shapes of answers come from the examples that are
// saved with the requests. The error is an [*Error].
func Postman(file string, data []byte) (*Description, error) {
	if err := bounded(file, data); err != nil {
		return nil, err
	}
	if e := jsonError(file, data); e != nil {
		return nil, e
	}
	var c collection
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, &Error{File: file, Message: "not a Postman collection: " + sentence(err.Error())}
	}
	switch {
	case c.Item == nil:
		return nil, &Error{File: file, Message: "not a Postman collection: it has no member `item`",
			Hint: "export it as collection v2.1"}
	case c.Info.Schema != "" && !strings.Contains(c.Info.Schema, "/v2."):
		return nil, &Error{File: file, Message: fmt.Sprintf("collection format %s; want v2.0 or v2.1", printed(c.Info.Schema)),
			Hint: "export it as collection v2.1"}
	}
	r := &postman{d: &Description{Title: sentence(c.Info.Name), Examples: true}, vars: map[string]string{}, left: maxShapes}
	for _, v := range c.Variable {
		if value := scalar(v.Value); value != "" {
			r.vars[v.Key], r.vars[v.ID] = value, value
		}
	}
	r.folder(c.Item, "")
	if len(r.d.Operations) > maxOperations {
		return nil, &Error{File: file, Message: fmt.Sprintf("more than %d requests", maxOperations)}
	}
	slices.SortStableFunc(r.d.Operations, func(a, b Operation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return r.d, nil
}

// postman reads one collection.
type postman struct {
	d    *Description
	vars map[string]string
	left int // how many more values of examples may be read
}

func (r *postman) folder(items []folder, name string) {
	for _, f := range items {
		if f.Request == nil {
			r.folder(f.Item, f.Name)
			continue
		}
		r.add(f, name)
	}
}

// add adds a request. If a request with this method and path was added before, add merges the two requests.
func (r *postman) add(f folder, tag string) {
	base, path, ok := r.split(f.Request.URL.Raw)
	if !ok || len(r.d.Operations) > maxOperations {
		return
	}
	if base != "" && !slices.Contains(r.d.Servers, base) {
		r.d.Servers = append(r.d.Servers, base)
	}
	o := Operation{
		Method: strings.ToUpper(f.Request.Method), Path: path, Tag: tag,
		Text: joinedText(f.Name, string(f.Request.Description)), Params: r.params(f.Request.URL, path), Answer: r.answer(f.Response),
		Public: f.Request.Auth != nil && f.Request.Auth.Type == "noauth",
	}
	i := slices.IndexFunc(r.d.Operations, func(p Operation) bool { return p.Method == o.Method && p.Path == o.Path })
	if i < 0 {
		r.d.Operations = append(r.d.Operations, o)
		return
	}
	have := &r.d.Operations[i]
	have.Public = have.Public && o.Public
	for _, p := range o.Params {
		if !slices.ContainsFunc(have.Params, func(q Param) bool { return q.Name == p.Name }) {
			have.Params = append(have.Params, p)
		}
	}
	switch {
	case have.Answer == nil:
		have.Answer = o.Answer
	case o.Answer != nil:
		have.Answer = both(have.Answer, o.Answer)
	}
}

var (
	named  = regexp.MustCompile(`\{\{\s*([^{}]+?)\s*\}\}`)
	number = regexp.MustCompile(`^([0-9]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27})$`)
)

// filled replaces variables by their values. A value may contain variables too.
func (r *postman) filled(s string) string {
	for range 5 {
		next := named.ReplaceAllStringFunc(s, func(m string) string {
			if v, ok := r.vars[named.FindStringSubmatch(m)[1]]; ok && len(v) < 2000 {
				return v
			}
			return m
		})
		if next == s || len(next) > 1<<16 {
			break
		}
		s = next
	}
	return s
}

// split splits a URL into base, such as https://api.example.com, and path. In the path, :name and variables
// become {name}, and ids of an example become {id}.
func (r *postman) split(raw string) (base, path string, ok bool) {
	full := r.filled(raw)
	full, _, _ = strings.Cut(full, "#")
	full, _, _ = strings.Cut(full, "?")
	rest := full
	if scheme, after, found := strings.Cut(full, "://"); found {
		host, tail, _ := strings.Cut(after, "/")
		if u, err := url.Parse(scheme + "://" + host); err == nil && !strings.Contains(host, "{{") && u.Host != "" {
			base = u.Scheme + "://" + u.Host
		}
		rest = tail
	} else if strings.HasPrefix(full, "{{") { // {{baseUrl}}/pets
		_, rest, _ = strings.Cut(full, "}}")
	} else if host, tail, found := strings.Cut(full, "/"); found && strings.Contains(host, ".") {
		base, rest = "https://"+host, tail
	}
	for segment := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		switch {
		case segment == "":
			continue
		case strings.HasPrefix(segment, ":") && len(segment) > 1:
			segment = "{" + segment[1:] + "}"
		case named.MatchString(segment):
			segment = "{" + strings.TrimSpace(named.FindStringSubmatch(segment)[1]) + "}"
		case number.MatchString(segment):
			segment = "{id}"
		}
		path += "/" + segment
	}
	return base, path, path != ""
}

// params returns the path parameters and the names of the query parameters. The values of query parameters in an
// example are ignored, because they would filter records.
func (r *postman) params(a address, path string) []Param {
	var all []Param
	for _, m := range placeholder.FindAllStringSubmatch(path, -1) {
		all = append(all, Param{Name: m[1], In: "path", Required: true})
	}
	for _, q := range a.Query {
		if q.Key != "" {
			all = append(all, Param{Name: q.Key, In: "query"})
		}
	}
	if _, query, ok := strings.Cut(a.Raw, "?"); ok && len(a.Query) == 0 {
		for pair := range strings.SplitSeq(query, "&") {
			if key, _, _ := strings.Cut(pair, "="); key != "" {
				all = append(all, Param{Name: key, In: "query"})
			}
		}
	}
	return all
}

// answer merges the saved successful answers, and returns their shape.
func (r *postman) answer(all []saved) *Shape {
	var out *Shape
	for _, s := range all {
		if s.Code/100 != 2 || len(s.Body) > 4<<20 {
			continue
		}
		var v any
		d := json.NewDecoder(strings.NewReader(s.Body))
		d.UseNumber()
		if d.Decode(&v) != nil {
			continue
		}
		shape := r.seen(v, 0)
		if out != nil {
			shape = both(out, shape)
		}
		out = shape
	}
	return out
}
