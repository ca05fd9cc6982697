package config

import (
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

func (r *reader) percentage(n ast.Node, what string) float64 {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(s.value), "%")
	v, err := strconv.Atoi(strings.TrimSpace(number))
	if !percent || err != nil || v < 0 || v > 90 {
		r.fault(s.at, "%s %q: want a share from 0%% to 90%%, such as 20%%", what, s.raw)
		return 0
	}
	return float64(v) / 100
}

// The bounds of max_wait.
const (
	leastMaxWait = time.Second
	mostMaxWait  = 24 * time.Hour
)

func (r *reader) maxWait(n ast.Node, what string) time.Duration {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(strings.TrimSpace(s.value))
	if err != nil || d < leastMaxWait || d > mostMaxWait {
		r.fault(s.at, "%s %q: want a duration from 1s to 24h, such as 5m", what, s.raw)
		return 0
	}
	return d
}
