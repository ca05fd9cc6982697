package receive

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

const bodyTime = 10 * time.Second

// firstRead fits most bodies.
const firstRead = 4 << 10

// read takes memory from the budget as bytes arrive, not by the announced length, so that a client cannot
// reserve memory without sending. The caller must call release.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), a answer) {
	taken := h.budget.account(address(r.RemoteAddr))
	// The error is ignored: only servers in tests do not support deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	limited := http.MaxBytesReader(w, r.Body, MaxBody)
	for {
		if len(body) == cap(body) {
			if !taken.take(grown(body, r.ContentLength) - cap(body)) {
				return nil, taken.release, answer{status: http.StatusServiceUnavailable, verdict: busy, closing: true}
			}
			body = append(make([]byte, 0, grown(body, r.ContentLength)), body...)
		}
		n, err := limited.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var large *http.MaxBytesError
		switch {
		case errors.Is(err, io.EOF):
			return body, taken.release, answer{}
		case errors.As(err, &large):
			return nil, taken.release, answer{status: http.StatusRequestEntityTooLarge, verdict: tooLarge, closing: true}
		case err != nil:
			return nil, taken.release, answer{status: http.StatusServiceUnavailable, verdict: incomplete, err: err, closing: true}
		}
	}
}

func grown(body []byte, announced int64) int {
	switch {
	case cap(body) > 0:
		return min(2*cap(body), MaxBody+1)
	case announced >= 0 && announced < firstRead:
		return int(announced) + 1
	}
	return firstRead
}

// identity reports whether a body is not compressed. Most senders sign the uncompressed body, and a
// compressed one can be a decompression bomb.
func identity(encodings []string) bool {
	for _, e := range encodings {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "identity") {
			return false
		}
	}
	return true
}

// readable accepts JSON, and other types that senders use for JSON. The charset is ignored, because the
// signature covers the raw bytes.
func readable(types []string) bool {
	if len(types) == 0 {
		return true
	}
	kind, _, err := mime.ParseMediaType(types[0])
	if len(types) > 1 || err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	switch kind {
	case "application/json", "text/json", "text/plain", "application/octet-stream", "application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}
