package extract

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"path"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// File is a body that is kept as it came, beside the record about it.
type File struct {
	// Path is where the record says that the file is: below a folder of the
	// reader's choice, named by the content's SHA-256. Nothing of it comes from
	// the source.
	Path string
	Body []byte
}

// about is the record about a file.
type about struct {
	Type     string `json:"content_type"`            // by its first bytes
	Declared string `json:"declared_type,omitempty"` // by its header
	Mismatch bool   `json:"mismatch"`                // they say different things
	Size     int    `json:"size"`
	SHA256   string `json:"sha256"`
	Name     string `json:"name,omitempty"` // as the source calls it; never that of a file here
	Path     string `json:"path"`
}

// file makes an answer that is not JSON a file, and its doc the record about it.
// One that is not of the type that the stream's files have is none: the failures
// of the platform come under 200 as well.
func (a *answer) file(s schemas.Stream) error {
	body := bytes.Clone(a.resp.Body)
	kind := sniff(body)
	declared, _, _ := mime.ParseMediaType(a.resp.Header.Get("Content-Type"))
	if s.Media != "" && kind != s.Media {
		if json.Valid(body) {
			return a.d.scan(body) // a failure, if it says so
		}
		return a.unlike(s, kind+titled(body))
	}
	sum := sha256.Sum256(body)
	hash := hex.EncodeToString(sum[:])
	record := about{
		Type: kind, Declared: declared, Mismatch: mismatch(kind, declared), Size: len(body), SHA256: hash,
		Name: fileName(a.resp.Header.Get("Content-Disposition")),
		Path: path.Join(s.Table.Name, hash[:2], hash+extensions[kind]),
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	a.kept = &File{Path: record.Path, Body: body}
	return a.d.scan(text)
}

// noFile is the error of an answer in a file's place that is JSON and tells of no
// failure.
func (a *answer) noFile(s schemas.Stream) error {
	if s.Class != schemas.ClassFile || a.kept != nil {
		return nil
	}
	return a.unlike(s, "JSON")
}

func (a *answer) unlike(s schemas.Stream, what string) error {
	return &wire.Error{
		Class: wire.Malformed, Status: a.resp.Status, Method: s.Method, Path: s.Path, Attempts: a.requests,
		Message: what + " in place of " + s.Media,
	}
}

// sniff is the media type that the first bytes of a body tell.
func sniff(body []byte) string {
	if bytes.Contains(body[:min(len(body), 1024)], []byte("%PDF-")) {
		return "application/pdf" // readers accept junk before it
	}
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(body))
	return kind
}

// mismatch reports whether a header names another type than the bytes. Types that
// say nothing, and kinds of text, which bytes do not tell apart, are none.
func mismatch(kind, declared string) bool {
	const unknown = "application/octet-stream"
	if declared == "" || declared == unknown || kind == unknown || kind == declared {
		return false
	}
	textual := strings.HasPrefix(declared, "text/") || strings.HasSuffix(declared, "json") || strings.HasSuffix(declared, "xml")
	return kind != "text/plain" && kind != "text/xml" && kind != "application/zip" || kind == "text/plain" && !textual
}

// extensions are those of types that people open by them.
var extensions = map[string]string{
	"application/pdf": ".pdf", "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"text/html": ".html", "text/plain": ".txt", "text/xml": ".xml", "application/zip": ".zip", "application/x-gzip": ".gz",
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>([^<]{0,120})`)

func titled(body []byte) string {
	if m := pageTitle.FindSubmatch(body[:min(len(body), 8<<10)]); m != nil {
		return fmt.Sprintf(", titled %q", excerpt(string(m[1])))
	}
	return ""
}

// The longest name that is kept, in bytes, and names that mean devices somewhere.
const maxFileName = 200

var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// fileName is the name that a header gives a file, fit to be shown and to be used
// by whoever copies the file: no folder, no control character, nothing that any
// file system takes for something else. "" where none is left.
func fileName(disposition string) string {
	_, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return ""
	}
	name := params["filename"]
	if !utf8.ValidString(name) {
		name = strings.ToValidUTF8(name, "_")
	}
	name = name[strings.LastIndexAny(name, `/\`)+1:]
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		case strings.ContainsRune(`<>:"|?*%`, r):
			return '_'
		}
		return r
	}, name)
	name = strings.Trim(name, ". ")
	for len(name) > maxFileName {
		_, n := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-n]
	}
	if deviceName.MatchString(name) {
		return "_" + name
	}
	return name
}

// alone reports whether an answer about one parent fails in a way that says
// nothing of the others.
func alone(s schemas.Stream, e *wire.Error) bool {
	return poisonous(e) || s.Class == schemas.ClassFile && e.Class == wire.Malformed
}
