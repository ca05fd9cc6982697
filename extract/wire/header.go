package wire

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// accept includes media types like application/vnd.api+json and application/hal+json. Some APIs answer only with such a
// type.
const accept = "application/json, application/vnd.api+json;q=0.9, application/*+json;q=0.8"

var reservedHeaders = map[string]string{
	"Host": "follows from the address", "Content-Length": "follows from the body", "Content-Type": "follows from the body",
	"Connection": "belongs to the connection", "Keep-Alive": "belongs to the connection", "Proxy-Connection": "belongs to the connection",
	"Te": "belongs to the connection", "Trailer": "belongs to the connection", "Transfer-Encoding": "belongs to the connection",
	"Upgrade": "belongs to the connection", "Expect": "belongs to the connection", "Accept-Encoding": "is set by penstock",
	"Authorization": "is a credential; put it under auth", "Proxy-Authorization": "is a credential", "Proxy-Authenticate": "is a credential",
	"Cookie": "is a credential", "Set-Cookie": "is a credential",
	"Range": "would cut answers", "If-Range": "would cut answers", "If-None-Match": "would empty answers", "If-Match": "would empty answers",
	"If-Modified-Since": "would empty answers", "If-Unmodified-Since": "would empty answers",
}

// HeaderFault returns what is wrong with a configured header, or "". The text does not hold the value. // Invariant 5
func HeaderFault(name string, value Secret) string {
	if name == "" || strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c) }) {
		return "is not a header name"
	}
	canonical := http.CanonicalHeaderKey(name)
	if why := reservedHeaders[canonical]; why != "" {
		return "cannot be set: it " + why
	}
	if strings.HasPrefix(canonical, "Proxy-") || strings.HasPrefix(canonical, "Sec-") {
		return "cannot be set"
	}
	if strings.ContainsFunc(value.Reveal(), isControl) {
		return "holds a control character or a line break"
	}
	return ""
}

// AuthHeaderFault returns what is wrong with the name of the header for the credential, or "".
func AuthHeaderFault(name string) string {
	if http.CanonicalHeaderKey(name) == "Authorization" {
		return ""
	}
	return HeaderFault(name, "")
}

func (o Options) checkHeaders() error {
	own := http.CanonicalHeaderKey(orDefault(o.AuthHeader, "Authorization"))
	if bad := AuthHeaderFault(own); bad != "" {
		return fmt.Errorf("header %s of the credential %s", own, bad)
	}
	seen := []string{own}
	for name, value := range o.Headers {
		if bad := HeaderFault(name, value); bad != "" {
			return fmt.Errorf("header %q %s", name, bad)
		}
		if name = http.CanonicalHeaderKey(name); slices.Contains(seen, name) {
			return fmt.Errorf("header %s is set twice", name)
		}
		seen = append(seen, http.CanonicalHeaderKey(name))
	}
	return nil
}

// header returns the headers of the request. Configured headers go only to the client's origin, like the credential.
// Invariant 10
func (k *call) header() http.Header {
	h := http.Header{
		"Accept":          {accept},
		"Accept-Encoding": {"gzip"},
		"Cache-Control":   {"no-cache"},
		"User-Agent":      {k.c.opts.UserAgent},
	}
	if k.file {
		h.Set("Accept", "*/*")
	}
	if k.ranges != "" {
		h.Set("Range", k.ranges)
	}
	if k.c.opts.Identity {
		h.Set("Accept-Encoding", "identity")
	}
	for name, value := range k.c.opts.Headers {
		h.Set(name, value.Reveal())
	}
	if k.token != "" {
		h.Set(k.credential())
	}
	return h
}

func (k *call) credential() (name, value string) {
	o := k.c.opts
	if o.AuthHeader == "" {
		return "Authorization", "Bearer " + k.token.Reveal()
	}
	return o.AuthHeader, strings.TrimSpace(o.AuthScheme + " " + k.token.Reveal())
}
