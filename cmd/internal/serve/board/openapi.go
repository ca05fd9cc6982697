package board

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// describe returns the OpenAPI document. It is made from the table of endpoints and the types of their responses,
// so it always matches the API.
func describe(version string) ([]byte, error) {
	d := describer{schemas: map[string]any{}, paths: map[string]map[string]any{}}
	fault, err := d.content("application/problem+json", problem{})
	if err != nil {
		return nil, err
	}
	d.fault = map[string]any{"description": "The error.", "content": fault}
	for _, e := range endpoints() {
		if err := d.add(e); err != nil {
			return nil, err
		}
	}
	if err := d.addEvents(); err != nil {
		return nil, err
	}
	doc := map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title":       "penstock serve",
			"version":     max(version, "0"),
			"description": "The data and actions of the dashboard as an API. If tokens are configured, every request needs a bearer token or a session.",
		},
		"security": []any{map[string]any{"token": []string{}}, map[string]any{}},
		"paths":    d.paths,
		"components": map[string]any{
			"schemas":         d.schemas,
			"securitySchemes": map[string]any{"token": map[string]any{"type": "http", "scheme": "bearer"}},
		},
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	return bytes.ReplaceAll(text, []byte("#/$defs/"), []byte("#/components/schemas/")), nil
}

type describer struct {
	schemas map[string]any
	paths   map[string]map[string]any
	fault   map[string]any
}

var placeholder = regexp.MustCompile(`\{(\w+)\}`)

var inPath = map[string]string{
	"pipeline": "Name of the pipeline.", "source": "Name of the source.", "stream": "Name of the stream, such as crm.leads.", "run": "Id of the run.",
}

func (d *describer) add(e endpoint) error {
	content, err := d.content("application/json", e.shape)
	if err != nil {
		return err
	}
	params := []any{}
	for _, m := range placeholder.FindAllStringSubmatch(e.path, -1) {
		params = append(params, map[string]any{"name": m[1], "in": "path", "description": inPath[m[1]], "required": true, "schema": map[string]any{"type": "string"}})
	}
	for _, p := range e.query {
		schema := map[string]any{"type": p.kind}
		if p.values != nil {
			schema["enum"] = p.values
		}
		params = append(params, map[string]any{"name": p.name, "in": "query", "description": p.description, "schema": schema})
	}
	status, done := "200", "The response."
	if e.method != "GET" {
		status, done = "202", "The action is accepted and starts soon."
	}
	d.put(e.method, e.path, map[string]any{
		"summary": e.does, "operationId": operation(e), "parameters": params,
		"responses": map[string]any{status: map[string]any{"description": done, "content": content}, "default": d.fault},
	})
	return nil
}

func (d *describer) put(method, path string, operation map[string]any) {
	if d.paths[path] == nil {
		d.paths[path] = map[string]any{}
	}
	d.paths[path][strings.ToLower(method)] = operation
}

func operation(e endpoint) string {
	parts := strings.Split(strings.TrimPrefix(e.path, "/api/v1/"), "/")
	last := parts[len(parts)-1]
	switch {
	case e.method != "GET":
		what := map[string]string{"pipelines": "Pipeline", "sources": "Source"}[parts[0]]
		return last + what + strings.Repeat("Stream", len(parts)/4)
	case strings.HasPrefix(last, "{"):
		last = strings.Trim(last, "{}")
	case e.query != nil:
		return "list" + strings.ToUpper(last[:1]) + last[1:]
	}
	return "get" + strings.ToUpper(last[:1]) + last[1:]
}

// addEvents describes the endpoint of live updates.
func (d *describer) addEvents() error {
	content, err := d.content("text/event-stream", Update{})
	if err != nil {
		return err
	}
	d.put("GET", "/events", map[string]any{
		"summary":     "Live updates as server-sent events. The data of an event \"change\" is an Update as JSON. An event \"reset\" means that events were missed. To continue after an event, send its id in Last-Event-ID.",
		"operationId": "followEvents",
		"parameters":  []any{map[string]any{"name": "Last-Event-ID", "in": "header", "description": "Id of the last event that was received.", "schema": map[string]any{"type": "string"}}},
		"responses":   map[string]any{"200": map[string]any{"description": "An endless stream of events.", "content": content}, "default": d.fault},
	})
	return nil
}

func (d *describer) content(kind string, v any) (map[string]any, error) {
	r := jsonschema.Reflector{Anonymous: true, Namer: nameOf}
	text, err := json.Marshal(r.Reflect(v))
	if err != nil {
		return nil, fmt.Errorf("describe %T: %w", v, err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("describe %T: %w", v, err)
	}
	defs, _ := schema["$defs"].(map[string]any)
	for name, s := range defs {
		if was, ok := d.schemas[name]; ok && !reflect.DeepEqual(was, s) {
			return nil, fmt.Errorf("describe %T: two types are called %s", v, name)
		}
		d.schemas[name] = s
	}
	delete(schema, "$defs")
	delete(schema, "$schema")
	return map[string]any{kind: map[string]any{"schema": schema}}, nil
}

// nameOf returns the name of a type in the document: RunList for items[Run].
func nameOf(t reflect.Type) string {
	name, of, generic := strings.Cut(t.Name(), "[")
	switch {
	case name == "":
		return "" // an unnamed type, for example a slice
	case !generic:
		return strings.ToUpper(name[:1]) + name[1:]
	}
	of = strings.TrimSuffix(of, "]")
	return of[strings.LastIndexByte(of, '.')+1:] + "List"
}
