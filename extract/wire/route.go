package wire

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Route is one permitted request: a method, and a path template with variable segments like {name}.
type Route struct {
	Method string
	Path   string
}

// allowList holds every request that a client can make. // Invariant 9
type allowList map[Route][]string // the template's segments

// sessionPaths are reserved for credentials. A stream that requests one of them could end the sessions of all
// programs of the same user.
var sessionPaths = []string{"/api/login", "/api/refresh", "/api/logout", "/api/tracker-login"}

func compile(routes []Route) (allowList, error) {
	list := make(allowList, len(routes))
	for _, r := range routes {
		r.Method = orDefault(r.Method, http.MethodGet)
		if r.Method != http.MethodGet && r.Method != http.MethodPost {
			return nil, fmt.Errorf("allow %s %s: only GET and POST can be reads", r.Method, r.Path)
		}
		if slices.Contains(sessionPaths, strings.TrimSuffix(r.Path, "/")) {
			return nil, fmt.Errorf("allow %s %s: reserved for the credential", r.Method, r.Path)
		}
		segments, err := parseTemplate(r.Path)
		if err != nil {
			return nil, fmt.Errorf("allow %s %s: %w", r.Method, r.Path, err)
		}
		list[r] = segments
	}
	return list, nil
}

func parseTemplate(path string) ([]string, error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#%\\") {
		return nil, errors.New("not a path template")
	}
	segments := strings.Split(path[1:], "/")
	for _, s := range segments {
		if s == "." || s == ".." || strings.ContainsAny(s, "{}") && paramName(s) == "" {
			return nil, fmt.Errorf("segment %q is neither text nor {name}", s)
		}
	}
	return segments, nil
}

func paramName(segment string) string {
	name, ok := strings.CutPrefix(segment, "{")
	if !ok || !strings.HasSuffix(name, "}") || strings.Count(segment, "{")+strings.Count(segment, "}") != 2 {
		return ""
	}
	return name[:len(name)-1]
}

func (l allowList) expand(r Route, params map[string]string) (string, error) {
	segments, ok := l[r]
	if !ok {
		return "", fmt.Errorf("the read list has no %s request for this path", r.Method)
	}
	var b strings.Builder
	used := 0
	for _, s := range segments {
		b.WriteByte('/')
		name := paramName(s)
		if name == "" {
			b.WriteString(url.PathEscape(s))
			continue
		}
		v := params[name]
		if err := checkParam(v); err != nil {
			return "", fmt.Errorf("parameter %s: %w", name, err)
		}
		used++
		b.WriteString(url.PathEscape(v))
	}
	if used != len(params) {
		return "", fmt.Errorf("%d parameters for %d placeholders", len(params), used)
	}
	return b.String(), nil
}

// checkParam refuses values that a server or proxy could read as several path segments, or as another segment. It
// also refuses percent signs, because some servers decode twice.
func checkParam(v string) error {
	switch {
	case v == "":
		return errors.New("empty")
	case len(v) > 512:
		return fmt.Errorf("%d bytes long", len(v))
	case v == "." || v == "..":
		return fmt.Errorf("%q is not an object's name", v)
	case strings.ContainsAny(v, "/\\%") || strings.ContainsFunc(v, isControl):
		return fmt.Errorf("%q is not allowed in a path segment", v)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

func (l allowList) permits(path string) bool {
	got := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for r, want := range l {
		if r.Method == http.MethodGet && matches(want, got) {
			return true
		}
	}
	return false
}

func matches(template, segments []string) bool {
	if len(template) != len(segments) {
		return false
	}
	for i, t := range template {
		if paramName(t) != "" && checkParam(segments[i]) != nil || paramName(t) == "" && t != segments[i] {
			return false
		}
	}
	return true
}
