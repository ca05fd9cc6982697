// Package plainerror writes the messages of Go's standard library in words that users know. Users see these messages at
// the end of penstock's own errors.
package plainerror

import "regexp"

// rule replaces one kind of message.
type rule struct {
	message *regexp.Regexp
	words   string
}

// file matches the beginning of an error about a file.
const file = `(?:open|stat|lstat|read|mkdir|readdirent|chmod|remove|unlinkat|fsync) ([^\s:]+)`

// rules has the replacements, in their order.
var rules = []rule{
	{regexp.MustCompile(`\b(?:dial error: )?(?:dial (?:tcp|udp)[46]?(?: [^\s:]+:\d+)?: )?lookup ([^\s:]+)(?: on [^\s]+)?: (?:no such host|server misbehaving)`), "the host $1 is not known"},
	{regexp.MustCompile(`\b(?:dial error: )?dial (?:tcp|udp|unix)[46]? (\S+): (?:connect: )?`), "connect to $1: "},
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
	{regexp.MustCompile(`(^|\s)(?:x509|tls|yaml): `), "$1"},
	{regexp.MustCompile(`\b` + file + `: no such file or directory`), "$1 does not exist"},
	{regexp.MustCompile(`\b` + file + `: permission denied`), "no permission for $1"},
	{regexp.MustCompile(`\b` + file + `: is a directory`), "$1 is a folder"},
	{regexp.MustCompile(`\b` + file + `: not a directory`), "a part of the path $1 is not a folder"},
	{regexp.MustCompile(`\bstrconv\.\w+: parsing ("(?:[^"\\]|\\.)*"): (?:invalid syntax|value out of range)`), "$1 is not a number in range"},
	{regexp.MustCompile(`\btime: (?:invalid duration|unknown unit "[^"]*" in duration|missing unit in duration) ("[^"]*")`), "$1 is not a duration; want a number and a unit, such as 30s, 5m or 2h"},
	{regexp.MustCompile(`\bjson: cannot unmarshal (\w+) into (?:Go )?(?:value|struct field \S+|field \S+) of type \S+`), "unexpected $1 in the JSON"},
	{regexp.MustCompile(`\bunexpected end of JSON input\b`), "the JSON ends too early"},
	{regexp.MustCompile(`\binvalid character ('(?:[^'\\]|\\.)*') (?:looking for|after|in) [^;\n]*`), "unexpected character $1"},
	{regexp.MustCompile(`\bunexpected EOF\b`), "the data ends too early"},
	{regexp.MustCompile(`: EOF\b`), ": the connection was closed"},
}

// Text returns a message in plain words. It replaces only what Go's standard library writes.
func Text(message string) string {
	for _, r := range rules {
		message = r.message.ReplaceAllString(message, r.words)
	}
	return message
}
