// Manifests writes JSON Schemas of Kubernetes objects for kubeconform. Without them, kubeconform would download schemas
// from the network. The input comes from Go modules: the description of the API from the module of Kubernetes, and the
// definitions of KEDA's objects from KEDA's module. A schema forbids all fields that it does not name.
//
//	go run ./cmd/internal/manifests -api swagger.json -objects FOLDER -out FOLDER
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
)

func main() {
	api := flag.String("api", "", "swagger.json of Kubernetes")
	objects := flag.String("objects", "", "folder with CustomResourceDefinitions")
	out := flag.String("out", "", "folder for the schemas")
	flag.Parse()
	if err := errors.Join(writeAPI(*api, *out), writeObjects(*objects, *out)); err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

// schema is a JSON Schema.
type schema = map[string]any

// groups are the API groups of Kubernetes whose objects get a schema.
var groups = []string{"", "apps", "batch", "networking.k8s.io", "policy"}

// writeAPI writes a schema for each kind of object in these groups. Each file has all definitions, because the
// definitions refer to each other.
func writeAPI(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]schema }
	if err := json.Unmarshal(text, &api); err != nil {
		return fmt.Errorf("read %s: %w", from, err)
	}
	for name, one := range api.Definitions {
		if strings.HasSuffix(name, ".resource.Quantity") {
			one["type"] = []string{"string", "number"}
		}
		closeSchema(one)
	}
	var errs []error
	for name, one := range api.Definitions {
		kinds, _ := one["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // a definition of several kinds, such as DeleteOptions, is not an object that a manifest creates
			continue
		}
		of, _ := kinds[0].(schema)
		for _, group := range groups {
			if of["group"] == group {
				errs = append(errs, write(to, group, of["version"], of["kind"], schema{"$ref": "#/definitions/" + name, "definitions": api.Definitions}))
			}
		}
	}
	return errors.Join(errs...)
}

// writeObjects writes a schema for each version of the custom objects that the files of a folder define.
func writeObjects(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.yaml"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("read %s: no files", from)
	}
	for _, file := range files {
		err = errors.Join(err, writeObject(file, to))
	}
	return err
}

func writeObject(file, to string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var object struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					Object schema `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, v := range object.Spec.Versions {
		closeSchema(v.Schema.Object)
		err = errors.Join(err, write(to, object.Spec.Group, v.Name, object.Spec.Names.Kind, v.Schema.Object))
	}
	return err
}

// write writes the schema of a kind of object to a file. The file has the name under which kubeconform looks for this
// schema.
func write(folder, group string, version, kind any, s schema) error {
	short, _, _ := strings.Cut(group, ".")
	name := strings.Trim(strings.ToLower(fmt.Sprintf("%v-%s-%v", kind, short, version)), "-")
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, "--", "-")+".json"), text, 0o600)
}

// closeSchema forbids fields that a schema does not name, at every level. It also allows both numbers and texts where
// Kubernetes accepts both.
func closeSchema(s schema) {
	if s["format"] == "int-or-string" || s["x-kubernetes-int-or-string"] == true {
		delete(s, "anyOf")
		s["type"] = []string{"integer", "string"}
	}
	delete(s, "format") // kubeconform does not know all formats, for example that of a quantity
	fields, _ := s["properties"].(schema)
	if _, open := s["additionalProperties"]; len(fields) > 0 && !open && s["x-kubernetes-preserve-unknown-fields"] != true {
		s["additionalProperties"] = false
	}
	for _, field := range fields {
		if f, ok := field.(schema); ok {
			closeSchema(f)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := s[key].(schema); ok {
			closeSchema(inner)
		}
	}
}
