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

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// File is the body of an answer, to be stored unchanged. A record describes it.
type File struct {
	// Path is where to store the file, relative to a folder that the caller chooses. It is the table's name, the
	// SHA-256 of the content, and an extension for the detected type. No part of it is text from the source. The record
	// holds the same path.
	Path string
	Body []byte
}

type about struct {
	Type     string `json:"content_type"`            // detected from the first bytes
	Declared string `json:"declared_type,omitempty"` // from the header
	Mismatch bool   `json:"mismatch"`                // the declared type contradicts the bytes
	Size     int    `json:"size"`
	SHA256   string `json:"sha256"`
	Name     string `json:"name,omitempty"` // the source's name for the file; never the name of a local file
	Path     string `json:"path"`
}

// file keeps the body as a file. It returns an error if the body does not have the stream's media type, because the
// platform also reports failures with status 200.
func (a *answer) file(s schemas.Stream) error {
	body := bytes.Clone(a.resp.Body)
	kind := sniff(body)
	declared, _, _ := mime.ParseMediaType(a.resp.Header.Get("Content-Type"))
	if s.Media != "" && kind != s.Media {
		if json.Valid(body) {
			return a.d.Scan(body)
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
	return a.d.Scan(text)
}

// noFile returns an error if an endpoint that should return a file answers with JSON. The earlier check in verdict()
// accepts such an answer.
func (a *answer) noFile(s schemas.Stream) error {
	if s.Class != schemas.ClassFile || a.kept != nil {
		return nil
	}
	return a.unlike(s, "JSON")
}

func (a *answer) unlike(s schemas.Stream, what string) error {
	return &wire.Error{
		Class: wire.Malformed, Status: a.resp.Status, Method: s.Method, Path: s.Path, Attempts: a.requests,
		Message: what + " instead of " + s.Media,
	}
}

func sniff(body []byte) string {
	if bytes.Contains(body[:min(len(body), 1024)], []byte("%PDF-")) {
		return "application/pdf" // PDF readers accept junk before the header
	}
	kind, _, _ := mime.ParseMediaType(http.DetectContentType(body))
	return kind
}

// mismatch reports whether the declared type contradicts the bytes. An unspecific type never contradicts them. A type
// that cannot be recognized by its first bytes does not contradict them either.
func mismatch(kind, declared string) bool {
	const unknown = "application/octet-stream"
	if declared == "" || declared == unknown || kind == unknown || kind == declared {
		return false
	}
	textual := strings.HasPrefix(declared, "text/") || strings.HasSuffix(declared, "json") || strings.HasSuffix(declared, "xml")
	return kind != "text/plain" && kind != "text/xml" && kind != "application/zip" || kind == "text/plain" && !textual
}

var extensions = map[string]string{
	"application/pdf": ".pdf", "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
	"text/html": ".html", "text/plain": ".txt", "text/xml": ".xml", "application/zip": ".zip", "application/x-gzip": ".gz",
}

var pageTitle = regexp.MustCompile(`(?is)<title[^>]*>([^<]{0,120})`)

func titled(body []byte) string {
	if m := pageTitle.FindSubmatch(body[:min(len(body), 8<<10)]); m != nil {
		return fmt.Sprintf(", titled %q", wire.Excerpt(string(m[1])))
	}
	return ""
}

const maxFileName = 200

var deviceName = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// fileName returns the name from the header without folders and control characters. It replaces characters that are
// special in some file system. The name is safe to show, and to use for a copy.
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

func concernsOneParent(s schemas.Stream, e *wire.Error) bool {
	return paging.FailsOnData(e) || s.Class == schemas.ClassFile && e.Class == wire.Malformed
}
