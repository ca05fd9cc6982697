package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

func (k *call) receive(resp *http.Response, w *watch, p *budget.Permit) (*buffer, *Error) {
	body, err := k.c.readBody(resp, w.body(resp.Body), k.file && resp.StatusCode < 300, k.take)
	if err != nil {
		return nil, k.unreadable(resp, err)
	}
	if !k.file {
		body.text, body.notice = stripNotices(body.text)
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		p.LearnBody(resp, body.text)
	}
	if fault := k.judge(resp, body.text); fault != nil {
		body.release()
		return nil, fault
	}
	return body, nil
}

func (k *call) unreadable(resp *http.Response, err error) *Error {
	for _, hopeless := range []error{errTooBig, errTooDense, errNested, errEncoding} {
		if errors.Is(err, hopeless) {
			k.malformed = maxMalformed
			return k.fault(Malformed, resp, err.Error())
		}
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return k.fault(Malformed, resp, "body does not decompress: "+err.Error())
	}
	e := k.broken(resp, err)
	e.cut = errors.Is(err, io.ErrUnexpectedEOF)
	return e
}

func (k *call) judge(resp *http.Response, body []byte) *Error {
	switch {
	case resp.StatusCode >= 300:
		return k.failure(resp, body)
	case resp.StatusCode < 200:
		return k.fault(Malformed, resp, fmt.Sprintf("status %d without an answer", resp.StatusCode))
	case k.file:
		return k.judgeFile(resp, body)
	case resp.StatusCode == http.StatusNoContent:
		return nil
	}
	if name := charset(resp.Header.Get("Content-Type")); name != "" {
		k.malformed = maxMalformed
		return k.fault(Malformed, resp, fmt.Sprintf("body is in charset %.40q, not UTF-8", name))
	}
	if fault := k.judgeJSON(resp, body); fault != nil {
		return fault
	}
	if k.check != nil {
		if err := k.check(body); err != nil {
			return k.fault(Malformed, resp, err.Error())
		}
	}
	return nil
}

// judgeJSON checks the first and the last byte of a body. Request.Check and the parser check the rest.
func (k *call) judgeJSON(resp *http.Response, body []byte) *Error {
	switch {
	case len(body) == 0:
		return k.fault(Malformed, resp, "empty body")
	case body[0] == '<':
		return k.judgeHTML(resp, body)
	}
	last := bytes.TrimRight(body, " \t\r\n")
	switch end := last[len(last)-1]; {
	case body[0] == '{' && end == '}', body[0] == '[' && end == ']', string(last) == "null":
		return nil
	case body[0] == '{' || body[0] == '[':
		return k.fault(Malformed, resp, "body ends early")
	}
	return k.fault(Malformed, resp, "body is not JSON"+k.quote(body))
}

// notices matches warnings that PHP prints before an answer, as HTML or text, when display_errors is on. It does not
// match fatal errors, because no answer follows them. It is compiled when first used, because it is large and
// rarely used.
var notices = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:\s*(?:<br ?/?>\s*)?(?:<b>)?(?:PHP )?(?:Warning|Notice|Deprecated|Strict Standards)(?:</b>)?: {1,2}[^\n]{1,800}? in (?:<b>)?[^\n<]{1,300}(?:</b>)? on line (?:<b>)?\d+(?:</b>)?(?:<br ?/?>)?\s*)+`)
})

// stripNotices removes PHP warnings before a JSON text. It returns the text and the first warning. Any other prefix
// stays, and makes the body invalid.
func stripNotices(b []byte) (text []byte, notice string) {
	if len(b) == 0 || b[0] == '{' || b[0] == '[' {
		return b, ""
	}
	at := notices().FindIndex(b[:min(len(b), 64<<10)])
	if at == nil || at[1] == len(b) || b[at[1]] != '{' && b[at[1]] != '[' {
		return b, ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(tags.ReplaceAllString(string(b[:at[1]]), "")), "\n")
	return b[at[1]:], oneLine(first)
}

var tags = regexp.MustCompile(`<[^>]*>`)

func (k *call) quote(body []byte) string {
	if k.session {
		return ""
	}
	return fmt.Sprintf(": %.120q", oneLine(k.c.redact.excerpt(string(body[:min(len(body), 8<<10)]), 120)))
}

func (k *call) judgeFile(resp *http.Response, body []byte) *Error {
	if start := stripMark(body); len(start) > 0 && start[0] == '<' && looksLikeLogin(start) {
		return k.judgeHTML(resp, start)
	}
	return nil
}

var title = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)<title[^>]*>([^<]{0,200})`)
})

// judgeHTML classifies an HTML page that the server sent instead of data. // Invariant 11
func (k *call) judgeHTML(resp *http.Response, body []byte) *Error {
	what := "body is HTML, not JSON"
	if m := title().FindSubmatch(body[:min(len(body), 64<<10)]); m != nil {
		what += fmt.Sprintf(": page titled %q", oneLine(string(m[1])))
	}
	if looksLikeLogin(body) {
		return k.fault(Auth, resp, "login page instead of data: "+what)
	}
	return k.fault(NotData, resp, what)
}

var loginMarks = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)type=["']?password|name=["']?password|action=["'][^"'>]*/(login|signin|sign-in)\b|<title[^>]*>[^<]*(log ?in|sign ?in)`)
})

func looksLikeLogin(body []byte) bool { return loginMarks().Match(body[:min(len(body), 256<<10)]) }

func (k *call) failure(resp *http.Response, body []byte) *Error {
	message := ErrorMessage(body)
	foreign := message == ""
	if foreign && len(body) > 0 && body[0] == '<' {
		if m := title().FindSubmatch(body[:min(len(body), 64<<10)]); m != nil {
			message = string(m[1])
		}
	}
	class := statusClass(resp.StatusCode, message)
	challenge, scope := challengeOf(resp, body)
	switch challenge {
	case ChallengeToken:
		class = Auth
	case ChallengeScope:
		class = NotEntitled
	}
	e := k.fault(class, resp, message)
	e.foreign = foreign
	e.Challenge, e.Scope = challenge, k.c.redact.excerpt(oneLine(scope), 256)
	e.retryAfter, _ = budget.RetryAfter(resp.Header)
	return e
}

// statusClass returns the class of an error answer. The status is not enough: the platform's servers answer 400 to most
// errors, and 401 for a module that is switched off. So statusClass also reads the message.
func statusClass(status int, message string) Class {
	said := MessageClass(message)
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status >= 500, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		return Transient
	case status == http.StatusUnauthorized:
		if said == NotEntitled {
			return NotEntitled
		}
		return Auth
	case status == http.StatusPaymentRequired:
		return NotEntitled
	case status == http.StatusForbidden:
		if said == Invalid || said == Auth {
			return said
		}
		return NotEntitled
	case status == http.StatusNotFound, status == http.StatusGone:
		if said == NotEntitled {
			return NotEntitled
		}
		return Missing
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, status == http.StatusConflict:
		if said == Throttled {
			// Not Throttled: before its next try, a throttled call waits only until the governor permits requests again.
			// The governor stops all requests after a 429, but not after this status.
			return Transient
		}
		return orDefault(said, Invalid)
	case status < 400:
		return Malformed
	}
	return Invalid
}

// Messages of the platform's servers, and of Laravel, the framework of these servers.
var (
	authWords = regexp.MustCompile(`(?i)^\W*unauthori[sz]ed\W*$|unauthenticated|not logged in|please log ?in` +
		`|(token|api key|credentials?)\b.{0,20}\b(expired|invalid|incorrect|missing|absent|revoked|blacklisted|not provided|could not be)\b` +
		`|(access|authorization|bearer) token not found|invalid (access )?(token|api key|credentials)|credentials do not match`)
	throttleWords = regexp.MustCompile(`(?i)\btoo many (requests|attempts)\b`)
	invalidWords  = regexp.MustCompile(`(?i)\b(is|are) (required|invalid)\b|\bmust be\b|\bvalidation\b|\bnot a valid\b`)
	moduleWords   = regexp.MustCompile(`(?i)\b(module|add-?on)\b.{0,60}\b(not|isn't|inactive|disabled|expired|unavailable|missing)\b` +
		`|\b(plan|subscription|package|feature)\b.{0,60}\b(not (active|activated|enabled|available|included?|allow|support|cover)|inactive|disabled|expired|unavailable)` +
		`|\b(not|isn't|upgrade|no active|inactive|expired)\b.{0,40}\b(module|add-?on|feature|plan|subscription|package)\b`)
	permissionWords = regexp.MustCompile(`(?i)permission|not (allowed|permitted|authori[sz]ed)|unauthori[sz]ed|forbidden|access denied` +
		`|invalid (ability|scope)|insufficient (scope|rights)|e-?mail address is not verified`)
	missingWords   = regexp.MustCompile(`(?i)\b(not found|no query results|does not exist|doesn't exist|no longer exists|no such)\b`)
	transientWords = regexp.MustCompile(`(?i)something went wrong|server error|malformed utf-?8|try again|temporarily|timed? ?out|service unavailable|maintenance|deadlock|too many connections`)
)

// MessageClass classifies a failure by its message, for answers that report an error with status 200. It returns 0
// for an unknown message. The order of the cases matters: "CRM Module Not Found!" is about the plan, not about a
// record.
func MessageClass(message string) Class {
	switch {
	case message == "":
		return 0
	case throttleWords.MatchString(message):
		return Throttled
	case authWords.MatchString(message):
		return Auth
	case invalidWords.MatchString(message):
		return Invalid
	case moduleWords.MatchString(message), permissionWords.MatchString(message):
		return NotEntitled
	case missingWords.MatchString(message):
		return Missing
	case transientWords.MatchString(message):
		return Transient
	}
	return 0
}

// ErrorMessage returns the message of an error body. It looks in the members "message", "error", "errors" and
// "detail", for a text, or for an object or list that contains one. It returns "" if there is none.
func ErrorMessage(body []byte) string {
	var e struct {
		Message json.RawMessage `json:"message"`
		Error   json.RawMessage `json:"error"`
		Errors  json.RawMessage `json:"errors"`
		Detail  json.RawMessage `json:"detail"`
	}
	if len(body) > 4<<20 || json.Unmarshal(body, &e) != nil {
		return ""
	}
	message := words(e.Message, 3)
	for _, more := range []json.RawMessage{e.Error, e.Errors, e.Detail} {
		if message != "" && !vague(message) {
			break
		}
		message = orDefault(words(more, 3), message)
	}
	return message
}

func vague(message string) bool {
	switch strings.ToLower(strings.TrimRight(message, ".!")) {
	case "error", "failed", "validation error", "errors":
		return true
	}
	return false
}

func words(v json.RawMessage, depth int) string {
	var text string
	if len(v) == 0 || depth == 0 || json.Unmarshal(v, &text) == nil {
		return text
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(v, &object) == nil {
		for _, name := range []string{"message", "error", "detail"} {
			if text := words(object[name], depth-1); text != "" {
				return text
			}
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if text := words(object[name], depth-1); text != "" {
				return text
			}
		}
		return ""
	}
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil && len(list) > 0 {
		return words(list[0], depth-1)
	}
	return ""
}
