package sandbox

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

type member struct {
	name  string
	value any
}

// object is a JSON object with ordered members, like a PHP array. A value is nil, a bool, int, int64, string, number,
// list or object, or raw bytes.
type object []member

type list []any

type number string

func obj(pairs ...any) object {
	o := make(object, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		o = append(o, member{pairs[i].(string), pairs[i+1]})
	}
	return o
}

func (o object) lookup(name string) (any, bool) {
	for i := range o {
		if o[i].name == name {
			return o[i].value, true
		}
	}
	return nil, false
}

func (o object) get(name string) any {
	v, _ := o.lookup(name)
	return v
}

// text returns the member as text, for use as a key. 5 and "5" give the same text.
func (o object) text(name string) string { return textOf(o.get(name)) }

func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case int:
		return strconv.Itoa(v)
	case number:
		return string(v)
	case json.Number:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	default:
		return fmt.Sprint(v)
	}
}

// style is how a surface writes strings. PHP escapes slashes and all characters beyond ASCII. The versioned surface
// writes UTF-8.
type style bool

const (
	utf8Style style = false
	phpStyle  style = true
)

func (s style) append(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case number:
		return append(dst, v...)
	case json.Number:
		return append(dst, v...)
	case json.RawMessage:
		return append(dst, v...)
	case string:
		return s.appendString(dst, v)
	case object:
		return s.appendObject(dst, v)
	case list:
		return appendArray(dst, v, s.append)
	case []json.RawMessage:
		return appendArray(dst, v, func(d []byte, r json.RawMessage) []byte { return append(d, r...) })
	default:
		panic(fmt.Sprintf("sandbox: no JSON form of %T", v))
	}
}

func (s style) appendObject(dst []byte, o object) []byte {
	dst = append(dst, '{')
	for i := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(s.appendString(dst, o[i].name), ':')
		dst = s.append(dst, o[i].value)
	}
	return append(dst, '}')
}

func appendArray[T any](dst []byte, items []T, one func([]byte, T) []byte) []byte {
	dst = append(dst, '[')
	for i, item := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, item)
	}
	return append(dst, ']')
}

const hexDigits = "0123456789abcdef"

func (s style) appendString(dst []byte, v string) []byte {
	dst = append(dst, '"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '/' && s == phpStyle:
			dst = append(dst, '\\', '/')
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r < 0x20 || (r >= 0x80 && s == phpStyle):
			dst = appendEscape(dst, r)
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

func appendEscape(dst []byte, r rune) []byte {
	if r > 0xffff {
		r -= 0x10000
		dst = appendEscape(dst, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
