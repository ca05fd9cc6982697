// Package plainerror writes the messages of Go's standard library, and of its YAML library, in words that users know. Users see these
// messages at the end of penstock's own errors.
package plainerror

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// rule replaces one kind of message.
type rule struct {
	message *regexp.Regexp
	words   string
}

// file matches the beginning of an error about a file.
const file = `(?:open|stat|lstat|read|mkdir|readdirent|chmod|remove|unlinkat|fsync) ([^\s:]+)`

// lookup matches the beginning of an error about the name of a host.
const lookup = `(?:dial error: )?(?:dial (?:tcp|udp)[46]?(?: [^\s:]+:\d+)?: )?lookup ([^\s:]+)(?: on [^\s]+)?: `

// rules has the replacements, in their order.
var rules = []rule{
	{regexp.MustCompile(`\b` + lookup + `no such host\b`), "the host $1 is not known"},
	{regexp.MustCompile(`\b` + lookup + `(?:(?:read|write|dial) udp[46]? \S+: )?(?:server misbehaving|i/o timeout|[Tt]emporary failure in name resolution)\b`), "the name server cannot resolve the host $1 at the moment"},
	{regexp.MustCompile(`\b(?:dial error: )?dial (?:tcp|udp|unix)[46]? (\S+): (?:connect: )?`), "connect to $1: "},
	{regexp.MustCompile(`(\S+:\d+ \([^()\s]+\)): connect to \S+:\d+: `), "$1: "}, // a driver has named the address already
	{regexp.MustCompile(`\blisten (?:tcp|udp|unix)[46]? (\S+): bind: `), "listen at $1: "},
	{regexp.MustCompile(`\b(?:listen|dial) (?:tcp|udp)[46]?: address (\S+): invalid port`), "the port $1 is not valid"},
	{regexp.MustCompile(`\b(?:listen|dial) (?:tcp|udp)[46]?: `), ""},
	{regexp.MustCompile(`\b(?:read|write) (?:tcp|udp|unix)[46]? \S+->(\S+): (?:read: |write: )?`), "connection to $1: "},
	{regexp.MustCompile(`\b(Get|Post|Put|Head|Delete|Patch) ("[^"]*"): `), "request $2: "},
	{regexp.MustCompile(`\buse of closed network connection\b`), "the connection was closed"},
	{regexp.MustCompile(`\bcontext deadline exceeded(?: \(Client\.Timeout[^)]*\))?|\bi/o timeout\b|\bnet/http: TLS handshake timeout\b`), "no answer in time"},
	{regexp.MustCompile(`\bcontext canceled\b`), "cancelled"},
	{regexp.MustCompile(`\bhttp: server gave HTTP response to HTTPS client\b`), "the server speaks http, not https"},
	{regexp.MustCompile(`\btls: \w+ to verify certificate: `), "the certificate of the server is not valid: "},
	{regexp.MustCompile(`(?m)(^|: )(?:x509|tls|yaml): `), "$1"}, // after another word, it is a key of the configuration
	{regexp.MustCompile(`\b` + file + `: no such file or directory`), "$1 does not exist"},
	{regexp.MustCompile(`\b` + file + `: permission denied`), "no permission for $1"},
	{regexp.MustCompile(`\b` + file + `: is a directory`), "$1 is a folder"},
	{regexp.MustCompile(`\b` + file + `: not a directory`), "a part of the path $1 is not a folder"},
	{regexp.MustCompile(`: is a directory\b`), ": it is a folder"}, // after a path that penstock has named
	{regexp.MustCompile(`\bstrconv\.ParseBool: parsing ("(?:[^"\\]|\\.)*"): invalid syntax`), "$1 is neither true nor false"},
	{regexp.MustCompile(`\bstrconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): (?:invalid syntax|value out of range)`), "$1 is not a number in range"},
	{regexp.MustCompile(`\btime: (?:invalid duration|unknown unit "[^"]*" in duration|missing unit in duration) ("[^"]*")`), "$1 is not a duration; want a number and a unit, such as 30s, 5m or 2h"},
	{regexp.MustCompile(`\bjson: cannot unmarshal (\w+) into (?:Go )?(?:value|struct field \S+|field \S+) of type \S+`), "unexpected $1 in the JSON"},
	{regexp.MustCompile(`\bunexpected end of JSON input\b`), "the JSON ends too early"},
	{regexp.MustCompile(`\binvalid character ('(?:[^'\\]|\\.)*') ` + place + `\b`), "unexpected character $1"},
	{regexp.MustCompile(`(\b(?:request "[^"]*"|connection to \S+|connect to \S+): )(?:unexpected )?EOF\b`), "${1}the connection was closed"},
	{regexp.MustCompile(`\bsequence end token '\]' not found`), "the closing ] is missing"},
	{regexp.MustCompile(`\bcould not find flow mapping end token '\}'`), "the closing } is missing"},
	{regexp.MustCompile(`\bunexpected EOF\b`), "the data ends too early"},
	{regexp.MustCompile(`: EOF\b`), ": the data ends too early"}, // of a file, for example
	{regexp.MustCompile(`\b((?:\d+h)?\d+m)0s\b`), "$1"},          // durations: 5m0s is 5m, and 8h0m0s is 8h
	{regexp.MustCompile(`\b(\d+h)0m\b`), "$1"},
}

// place matches where encoding/json has found a wrong character.
const place = `(?:looking for beginning of (?:value|object key string)|after (?:top-level value|object key:value pair|object key|array element|decimal point in numeric literal)|` +
	`in (?:string literal|string escape code|\\u hexadecimal character escape|exponent of numeric literal|numeric literal|literal \w+))`

// foreign matches what penstock quotes: texts in quotation marks, and the rest of a line after a status of HTTP, which is
// the answer of a server.
var foreign = regexp.MustCompile(`"(?:[^"\\\n]|\\.)*"|: [1-5]\d\d [a-z][a-z' -]*: [^\n]+`)

// masked matches what stands for a quoted text.
var masked = regexp.MustCompile(`\x00(\d+)\x00`)

// Duration formats a duration without parts that are 0: 5m, not 5m0s.
func Duration(d time.Duration) string { return Text(d.String()) }

// Text returns a message in plain words. It finds the words of Go's standard library, also if another program has
// written them. It does not change what penstock quotes.
func Text(message string) string {
	var quoted []string
	message = foreign.ReplaceAllStringFunc(message, func(text string) string {
		mark := ""
		if text[0] == '"' { // some rules match the quotation marks
			text, mark = text[1:len(text)-1], `"`
		}
		quoted = append(quoted, text)
		return mark + "\x00" + strconv.Itoa(len(quoted)-1) + "\x00" + mark
	})
	for _, r := range rules {
		message = r.message.ReplaceAllString(message, r.words)
	}
	return masked.ReplaceAllStringFunc(message, func(mark string) string {
		if i, err := strconv.Atoi(strings.Trim(mark, "\x00")); err == nil && i < len(quoted) {
			return quoted[i]
		}
		return mark
	})
}
