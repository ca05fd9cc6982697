package sandbox

import "strings"

type router struct{ root node }

type node struct {
	literal map[string]*node
	param   *node
	name    string            // name of the parameter in this segment
	methods map[string]string // method → path template
}

func (r *router) add(route string) {
	method, path, _ := strings.Cut(route, " ")
	n := &r.root
	for _, segment := range segments(path) {
		n = n.child(segment)
	}
	if n.methods == nil {
		n.methods = map[string]string{}
	}
	n.methods[method] = path
}

func (n *node) child(segment string) *node {
	if name, ok := strings.CutPrefix(segment, "{"); ok {
		if n.param == nil {
			n.param = &node{}
		}
		n.param.name = strings.TrimSuffix(name, "}")
		return n.param
	}
	if n.literal == nil {
		n.literal = map[string]*node{}
	}
	if n.literal[segment] == nil {
		n.literal[segment] = &node{}
	}
	return n.literal[segment]
}

type match struct {
	template string // path template; "" if the path exists only for other methods
	values   []string
	others   []string
}

func (m match) params() map[string]string {
	named := map[string]string{}
	i := 0
	for _, segment := range segments(m.template) {
		if name, ok := strings.CutPrefix(segment, "{"); ok && i < len(m.values) {
			named[strings.TrimSuffix(name, "}")] = m.values[i]
			i++
		}
	}
	return named
}

func (r *router) find(method, path string) (m match, ok bool) {
	var walk func(n *node, rest, values []string) bool
	walk = func(n *node, rest, values []string) bool {
		if len(rest) == 0 {
			for known, template := range n.methods {
				ok = true
				m.others = append(m.others, known)
				if known == method {
					m.template, m.values = template, values
				}
			}
			return m.template != ""
		}
		if next := n.literal[rest[0]]; next != nil && walk(next, rest[1:], values) {
			return true
		}
		return n.param != nil && walk(n.param, rest[1:], append(values[:len(values):len(values)], rest[0]))
	}
	walk(&r.root, segments(path), nil)
	return m, ok
}

func segments(path string) []string { return strings.Split(strings.Trim(path, "/"), "/") }
