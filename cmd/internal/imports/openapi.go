package imports

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/penstock-data/penstock/state/plainerror"
)

// OpenAPI reads an OpenAPI 3 document in JSON or YAML. A $ref to another file or a URL is an error. The error is
// an [*Error].
func OpenAPI(file string, data []byte) (*Description, error) {
	if err := bounded(file, data); err != nil {
		return nil, err
	}
	if err := version(file, data); err != nil {
		return nil, err
	}
	loader := openapi3.NewLoader()
	loader.IncludeOrigin = true
	doc, err := loader.LoadFromData(data)
	if err != nil {
		return nil, unreadable(file, data, err)
	}
	switch {
	case doc.OpenAPI == "":
		return nil, &Error{File: file, Message: "not an OpenAPI document: it has no member `openapi`"}
	case !strings.HasPrefix(doc.OpenAPI, "3."):
		return nil, &Error{File: file, Message: fmt.Sprintf("OpenAPI %s; want 3.0 or 3.1", printed(doc.OpenAPI))}
	case doc.Paths.Len() == 0:
		return nil, &Error{File: file, Message: "it describes no paths"}
	}
	r := &openAPI{doc: doc, shaper: shaper{left: maxShapes}}
	d := &Description{Servers: servers(doc.Servers)}
	if doc.Info != nil {
		d.Title = sentence(doc.Info.Title)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		d.Operations = append(d.Operations, r.path(path, doc.Paths.Value(path))...)
		if len(d.Operations) > maxOperations {
			return nil, &Error{File: file, Message: fmt.Sprintf("more than %d operations", maxOperations)}
		}
	}
	if r.left <= 0 {
		return nil, &Error{File: file, Message: fmt.Sprintf("more than %d schemas once references are followed", maxShapes)}
	}
	return d, nil
}

var swagger = regexp.MustCompile(`(?m)^[\s{]*"?swagger"?\s*:\s*["']?([0-9.]+)`)

// version returns an error for documents older than OpenAPI 3.
func version(file string, data []byte) error {
	if m := swagger.FindSubmatchIndex(data[:min(len(data), 64<<10)]); m != nil {
		line, _ := place(data, m[2])
		return &Error{File: file, Line: line, Message: fmt.Sprintf("Swagger %s is older than OpenAPI 3", data[m[2]:m[3]]),
			Hint: "convert it first, with `npx swagger2openapi` or at https://converter.swagger.io"}
	}
	return nil
}

var (
	yamlLine = regexp.MustCompile(`line (\d+)`)
	external = regexp.MustCompile(`disallowed external reference: ("(?:[^"\\]|\\.)*")`)
)

// unreadable returns the error for a document that cannot be parsed, with the position if the parser reports one.
func unreadable(file string, data []byte, err error) error {
	text := err.Error()
	if m := external.FindStringSubmatch(text); m != nil {
		ref, _ := strconv.Unquote(m[1])
		e := &Error{File: file, Message: fmt.Sprintf("$ref %s leads out of the document", strconv.Quote(ref)),
			Hint: "bundle the description into one file first, with `npx @redocly/cli bundle`; penstock opens no file or URL that a document names"}
		if i := strings.Index(string(data), ref); i >= 0 {
			e.Line, _ = place(data, i)
		}
		return e
	}
	if strings.HasPrefix(strings.TrimSpace(string(data)), "{") {
		if e := jsonError(file, data); e != nil {
			return e
		}
	}
	if _, after, ok := strings.Cut(text, "yaml error: "); ok {
		text = after
	}
	if strings.Contains(text, "into value of type openapi3.T") {
		return &Error{File: file, Message: "not an OpenAPI document: want a mapping with the member `openapi`"}
	}
	if strings.HasPrefix(text, "json: ") || strings.Contains(text, "into field T.") {
		text = "not an OpenAPI document: " + text
	}
	for _, words := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: "} {
		text = strings.ReplaceAll(text, words, "")
	}
	e := &Error{File: file, Message: sentence(plainerror.Text(text))}
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Message = strings.TrimPrefix(e.Message, m[0]+": ")
	}
	return e
}

// jsonError returns the error and its position if data is not valid JSON; nil if it is valid.
func jsonError(file string, data []byte) *Error {
	var any json.RawMessage
	err := json.Unmarshal(data, &any)
	if err == nil {
		return nil
	}
	e := &Error{File: file, Message: "not JSON: " + plainerror.Text(err.Error())}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		e.Line, e.Col = place(data, int(s.Offset)-1)
	}
	return e
}

// servers returns the base URLs. In these URLs, variables are replaced by their default values.
func servers(all openapi3.Servers) []string {
	var urls []string
	for _, s := range all {
		if s == nil {
			continue
		}
		url := s.URL
		for name, v := range s.Variables {
			if v != nil {
				url = strings.ReplaceAll(url, "{"+name+"}", v.Default)
			}
		}
		if !strings.ContainsAny(url, "{}") {
			urls = append(urls, url)
		}
	}
	return urls
}

// openAPI reads one document.
type openAPI struct {
	doc *openapi3.T
	shaper
}

// path returns the operations at one path, in the order of the methods' names.
func (r *openAPI) path(path string, item *openapi3.PathItem) []Operation {
	if item == nil {
		return nil
	}
	var all []Operation
	ops := item.Operations()
	for _, method := range slices.Sorted(maps.Keys(ops)) {
		o := Operation{Method: method, Path: path}
		if op := ops[method]; op != nil {
			r.operation(&o, op, item.Parameters)
		}
		all = append(all, o)
	}
	return all
}

func (r *openAPI) operation(o *Operation, op *openapi3.Operation, shared openapi3.Parameters) {
	if op.Origin != nil && op.Origin.Key != nil {
		o.Line = op.Origin.Key.Line
	}
	if len(op.Tags) > 0 {
		o.Tag = op.Tags[0]
	}
	o.Text = joinedText(op.Summary, op.Description)
	if op.Deprecated {
		o.Text = strings.TrimSpace("Deprecated. " + o.Text)
	}
	security := op.Security
	if security == nil {
		security = &r.doc.Security
	}
	o.Public = len(*security) == 0 && (op.Security != nil || r.definesCredentials())
	o.Params = params(append(slices.Clone(shared), op.Parameters...))
	r.answer(o, op.Responses)
}

// definesCredentials reports whether the document defines any credentials.
func (r *openAPI) definesCredentials() bool {
	return r.doc.Components != nil && len(r.doc.Components.SecuritySchemes) > 0
}

// joinedText joins a summary and a description. If the description begins with the summary, it returns only the
// description.
func joinedText(summary, description string) string {
	summary, description = sentence(summary), sentence(description)
	switch {
	case summary == "" || strings.HasPrefix(description, summary):
		return description
	case description == "":
		return summary
	}
	return sentence(strings.TrimRight(summary, ".") + ". " + description)
}

// params returns the parameters. If two parameters have the same name in the same place, such as the query, the later
// parameter counts.
func params(refs openapi3.Parameters) []Param {
	var all []Param
	for _, ref := range refs {
		if ref == nil || ref.Value == nil || ref.Value.Name == "" {
			continue
		}
		p := param(ref.Value)
		if i := slices.IndexFunc(all, func(o Param) bool { return o.Name == p.Name && o.In == p.In }); i >= 0 {
			all[i] = p
			continue
		}
		all = append(all, p)
	}
	return all
}

func param(v *openapi3.Parameter) Param {
	p := Param{Name: v.Name, In: v.In, Required: v.Required}
	if v.Schema == nil || v.Schema.Value == nil {
		return p
	}
	s := v.Schema.Value
	switch {
	case s.Const != nil:
		p.Value = scalar(s.Const)
	case len(s.Enum) == 1:
		p.Value = scalar(s.Enum[0])
	case s.Default != nil:
		p.Value = scalar(s.Default)
	}
	if s.Max != nil && *s.Max >= 1 && *s.Max < math.MaxInt32 {
		p.Max = int(*s.Max)
	}
	return p
}

// scalar returns a string, a boolean or a number as text; "" for any other value.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int, int64, uint64, json.Number:
		return fmt.Sprint(v)
	}
	return ""
}

// answer reads the schema of a successful answer.
func (r *openAPI) answer(o *Operation, responses *openapi3.Responses) {
	var body *openapi3.Response
	for _, status := range append(slices.Sorted(maps.Keys(responses.Map())), "2XX", "default") {
		ref := responses.Value(status)
		ok := strings.HasPrefix(status, "2") || status == "default" && body == nil
		if ok && body == nil && ref != nil && ref.Value != nil && len(ref.Value.Content) > 0 {
			body = ref.Value
		}
	}
	if body == nil {
		return
	}
	for _, media := range slices.Sorted(maps.Keys(body.Content)) {
		base, _, _ := strings.Cut(strings.ToLower(media), ";")
		base = strings.TrimSpace(base)
		if base != "application/json" && !strings.HasSuffix(base, "+json") && base != "*/*" {
			o.Media = base
			continue
		}
		o.Media = ""
		if c := body.Content[media]; c != nil && c.Schema != nil {
			o.Answer = r.shape(c.Schema, 0)
		}
		return
	}
}

// printed() returns a text of the document, shortened and safe to print.
func printed(s string) string { return sentence(s[:min(len(s), 60)]) }

// reads() returns true for a method that cannot change data.
func reads(method string) bool { return method == "GET" }
