package receive

import (
	"bytes"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// kept are the header fields that are stored with an event, each up to keptBytes bytes.
var kept = []string{"Content-Type", "User-Agent"}

const keptBytes = 256

func event(source string, now time.Time, d signature.Delivery, v signature.Verdict) state.Event {
	header := map[string]string{}
	for _, name := range kept {
		if values := d.Header[name]; len(values) > 0 {
			header[name] = values[0][:min(len(values[0]), keptBytes)]
		}
	}
	return state.Event{
		Source: source, ID: v.EventID, Type: typeOf(d.Body), Received: now, Scheme: v.Scheme, Header: header, Body: d.Body,
	}
}

// typeOf returns the type of an event: the field `type` of the body, or else the field `event`. It returns "" if
// the body has neither. Such an event is stored too. // Invariant 11
func typeOf(body []byte) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return ""
	}
	other := ""
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return ""
		}
		field := name.String()
		if field != "type" && field != "event" || d.PeekKind() != '"' {
			if d.SkipValue() != nil {
				return other
			}
			continue
		}
		value, err := d.ReadToken()
		switch {
		case err != nil:
			return other
		case field == "type":
			return value.String()
		case other == "":
			other = value.String()
		}
	}
	return other
}

// A signature may cover any header field, so all fields of a captured delivery are stored up to these limits. Only
// credentials are left out. // Invariant 5
const (
	captureFields = 64
	captureBytes  = 32 << 10
)

var secretFields = map[string]bool{"Authorization": true, "Proxy-Authorization": true, "Cookie": true}

const (
	methodField = ":method"
	pathField   = ":path"
	queryField  = ":query"
)

func captureHeader(d signature.Delivery) map[string]string {
	header := map[string]string{methodField: d.Method, pathField: d.Path, queryField: d.Query}
	size := 0
	for name, values := range d.Header {
		if secretFields[name] {
			continue
		}
		value := strings.Join(values, "\n")
		if size += len(name) + len(value); size > captureBytes || len(header) == captureFields {
			break
		}
		header[name] = value
	}
	return header
}

func captureDelivery(e state.Event) signature.Delivery {
	d := signature.Delivery{Header: map[string][]string{}, Body: e.Body}
	for name, value := range e.Header {
		switch name {
		case methodField:
			d.Method = value
		case pathField:
			d.Path = value
		case queryField:
			d.Query = value
		default:
			d.Header[name] = strings.Split(value, "\n")
		}
	}
	return d
}
