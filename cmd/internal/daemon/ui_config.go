package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// nameable matches a name that a destination may have.
var nameable = regexp.MustCompile(`^[a-z][a-z0-9_]{0,40}$`)

// ConfigFor writes a configuration whose only destination is a URL, and returns its path. The file may contain a
// password, so only this user can read it. No part of the URL is a reference, such as ${NAME}. // Invariant 5
func ConfigFor(dir, url string) (string, error) {
	scheme, place, _ := strings.Cut(url, ":")
	name := "data"
	if !strings.Contains(place, "//") {
		path, options, some := strings.Cut(place, "?")
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", path, failure.PathCause(err))
		}
		if base := strings.TrimSuffix(filepath.Base(abs), filepath.Ext(abs)); nameable.MatchString(base) {
			name = base
		}
		url = scheme + ":" + abs
		if some {
			url += "?" + options
		}
	}
	text, err := json.Marshal(map[string]any{
		"version":      1,
		"sources":      map[string]any{"unknown": map[string]any{"app": map[string]any{"base_url": "https://unknown.invalid", "auth": map[string]any{"token": "unused"}}}},
		"destinations": map[string]any{name: map[string]any{"url": strings.ReplaceAll(url, "${", "$${")}},
		"pipelines":    map[string]any{"unknown": map[string]any{"from": "unknown", "to": name}},
		"state":        filepath.Join(dir, "state"),
	})
	if err != nil {
		return "", fmt.Errorf("write a configuration for the destination: %w", err)
	}
	file := filepath.Join(dir, "pipelines.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("write a configuration for the destination: %w", failure.PathCause(err))
	}
	return file, nil
}
