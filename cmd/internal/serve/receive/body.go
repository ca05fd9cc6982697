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

// firstRead is the size of the first buffer. Most bodies fit in it.
const firstRead = 4 << 10

// read reads the body. It takes memory from the budget as bytes arrive, not by the announced length: a client
// must send bytes to use memory. The caller must call release.
func (h *Handler) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), a answer) {
	taken := h.budget.account(address(r.RemoteAddr))
	// The call fails only on the servers of some tests, which do not support deadlines.
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

// identity reports whether a body is not compressed. A compressed body is refused: most senders sign the
// uncompressed body, and a small compressed body may need much memory.
func identity(encodings []string) bool {
	for _, e := range encodings {
		if e = strings.TrimSpace(e); e != "" && !strings.EqualFold(e, "identity") {
			return false
		}
	}
	return true
}

// readable reports whether the content type may be JSON. Some senders send JSON with other types. The charset is
// ignored, because the signature is over the raw bytes.
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
