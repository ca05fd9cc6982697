package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state/plainerror"
)

// Class groups errors by what the caller can do.
type Class uint8

// The classes of errors.
const (
	Transient   Class = iota + 1 // may pass by itself: server faults, broken connections, deadlines
	Throttled                    // the server's rate limit is reached: see NotBefore
	Auth                         // the credential is missing, wrong or expired
	NotEntitled                  // the module, plan or permission is missing; the list may still have records
	Missing                      // the object or path does not exist
	Malformed                    // the answer is cut, broken or of an unexpected type
	Invalid                      // the server does not accept these parameters
	Refused                      // not sent: the request or redirect is outside the allow-list or the origin, or the TLS handshake failed
	NotData                      // an HTML page instead of data, such as a maintenance page
)

// String returns the class as text in lower case.
func (c Class) String() string {
	names := [...]string{"unknown", "transient", "throttled", "auth", "not entitled", "missing", "malformed", "invalid", "refused", "not data"}
	if int(c) < len(names) {
		return names[c]
	}
	return names[0]
}

// Error says why a request failed. No field holds a secret or a query string: the texts are redacted, and Path is a
// template.
type Error struct {
	Class     Class
	Status    int       // status of the answer; 0 without an answer
	Method    string    // method of the request
	Path      string    // template of the path
	Message   string    // the server's message, or what is wrong with the answer
	NotBefore time.Time // for [Throttled] and [Transient]: when to retry; zero if unknown
	Attempts  int       // requests made
	Challenge string    // why the token is not accepted: [ChallengeToken], [ChallengeScope] or ""
	Scope     string    // with ChallengeScope: the required scope, if the server names it
	Err       error     // the underlying error, for errors.Is; may be nil

	retryAfter time.Duration
	cut        bool   // the body ended early
	foreign    bool   // an error answer without a message in JSON, which may come from a proxy
	unchanged  bool   // the call was a request for a token, and the server has changed nothing
	outage     bool   // the call was a request for a token, and the token endpoint is failing
	code       string // error code of a token endpoint: RFC 6749, section 5.2
}

// Error returns a text like: read /v2/contacts: 429 too many requests (5 attempts)
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "read %s: ", e.Path)
	switch {
	case e.Status >= 300:
		fmt.Fprintf(&b, "%d %s", e.Status, statusText(e.Status))
		if e.Message != "" && !strings.EqualFold(strings.TrimRight(e.Message, "."), http.StatusText(e.Status)) {
			fmt.Fprintf(&b, ": %s", e.Message)
		}
	case e.Message != "":
		b.WriteString(e.Message)
	case e.Err != nil:
		b.WriteString(plainerror.Text(e.Err.Error()))
	default:
		b.WriteString(e.Class.String())
	}
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (%d attempts)", e.Attempts)
	}
	if !e.NotBefore.IsZero() {
		fmt.Fprintf(&b, ", not before %s", e.NotBefore.UTC().Format(time.RFC3339))
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

func statusText(code int) string {
	return strings.ToLower(orDefault(http.StatusText(code), "unknown status"))
}

func (e *Error) unreachable() bool {
	c, ok := e.Err.(*cause) //nolint:errorlint // a wrapped cause belongs to another call
	if !ok {
		return false
	}
	op, ok := errors.AsType[*net.OpError](c.err)
	return ok && op.Op == "dial"
}

// cause is an error with a redacted text. errors.Is finds the underlying error, whose own text is never printed.
type cause struct {
	text string
	err  error
}

// Error returns the redacted text.
func (c *cause) Error() string { return c.text }

// Is reports whether the underlying error matches target.
func (c *cause) Is(target error) bool { return errors.Is(c.err, target) }

func (k *call) fault(class Class, resp *http.Response, message string) *Error {
	e := &Error{
		Class:    class,
		Method:   k.method,
		Path:     k.template,
		Message:  k.c.redact.excerpt(oneLine(message), 256),
		Attempts: k.attempts,
	}
	if resp != nil {
		e.Status = resp.StatusCode
	}
	return e
}

func (k *call) broken(resp *http.Response, err error) *Error {
	class, err := unanswered(err)
	e := k.fault(class, nil, "")
	words := err.Error()
	if errors.Is(err, io.EOF) {
		words = "the connection was closed"
	}
	e.Err = &cause{text: k.c.redact.excerpt(oneLine(words), 256), err: err}
	if longHeader(err) {
		e.Class, k.malformed = Malformed, maxMalformed
	}
	if resp != nil && resp.StatusCode >= 300 {
		e.Status = resp.StatusCode
	}
	return e
}

// untrusted reports whether the TLS handshake failed. Nothing was sent. A retry would fail in the same way.
func untrusted(err error) bool {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	return certificate || plain || alert
}

// unanswered returns the class of the error, and the error without its URL, whose query may hold secrets.
func unanswered(err error) (Class, error) {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if untrusted(err) {
		return Refused, err
	}
	return Transient, err
}

// longHeader reports whether a header or trailer was too long. It compares texts, because net/http has no error types
// for this.
func longHeader(err error) bool {
	text := err.Error()
	return slices.ContainsFunc([]string{"response headers exceeded", "suspiciously long trailer", "too many 1xx", "header list larger than"}, func(part string) bool { return strings.Contains(text, part) })
}

// oneLine removes control characters and line breaks. Otherwise a server's text could forge log lines or change the
// colours of a terminal.
func oneLine(s string) string {
	if len(s) > 64<<10 {
		s = s[:64<<10]
	}
	clean := strings.Map(func(r rune) rune {
		if isControl(r) || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return strings.Join(strings.Fields(clean), " ")
}

// Excerpt returns the beginning of a message of a server, on one line.
func Excerpt(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) > 256 {
		message = strings.ToValidUTF8(message[:256], "") + "…"
	}
	return message
}
