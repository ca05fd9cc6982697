package schemas

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decode decodes an embedded file, which must be one YAML document without unknown fields. The files that users write
// are read with another, slower library, whose errors show the column and an excerpt of the file. For the embedded
// files, speed matters more, because every command reads them.
func decode(data []byte, to any) error {
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	switch err := d.Decode(to); {
	case errors.Is(err, io.EOF):
		return errors.New("want one document")
	case err != nil:
		return err
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return errors.New("want one document")
	}
	return nil
}

// inFile returns the parts of an error of [decode], each with the file and line. It removes the names of Go types from
// the library's texts.
func inFile(name string, err error) []error {
	texts := []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	if all, ok := errors.AsType[*yaml.TypeError](err); ok {
		texts = all.Errors
	}
	unknown := regexp.MustCompile(`field (\S+) not found in type .*`)
	mismatch := regexp.MustCompile(`cannot unmarshal !!(\w+)(.*) into .*`)
	var faults []error
	for _, text := range texts {
		text = mismatch.ReplaceAllString(unknown.ReplaceAllString(text, `unknown field "$1"`), "unexpected $1$2")
		separator := ": "
		if line, ok := strings.CutPrefix(text, "line "); ok {
			text, separator = line, ":" // the text begins with the number of the line
		}
		faults = append(faults, errors.New(name+separator+text))
	}
	return faults
}
