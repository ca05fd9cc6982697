package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// dotenv is the file .env beside the configuration. Variables of the environment come
// first. It is read when the first variable is missing there, and again when it has
// changed. It is safe for concurrent use.
type dotenv struct {
	path string

	mu     sync.Mutex
	values map[string]string
	from   fs.FileInfo
	err    error // why it is not read
}

func newDotenv(config string) *dotenv {
	return &dotenv{path: filepath.Join(filepath.Dir(config), ".env")}
}

// lookup is a variable of the environment, or else of the file.
func (d *dotenv) lookup(name string) (string, bool) {
	if v, ok := os.LookupEnv(name); ok {
		return v, true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(d.path)
	if err != nil {
		return "", false
	}
	if d.from == nil || !os.SameFile(d.from, info) || !d.from.ModTime().Equal(info.ModTime()) || d.from.Size() != info.Size() || d.from.Mode() != info.Mode() {
		d.values, d.from, d.err = nil, info, nil
		var text string
		if text, d.err = readSecret(d.path); d.err == nil {
			d.values, d.err = parseDotenv(text)
		}
	}
	v, ok := d.values[name]
	return v, ok
}

// trouble is why the file is not read; nil where it is, or nobody asked for it.
func (d *dotenv) trouble() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return nil
	}
	return fmt.Errorf("%s is not read: %w", d.path, d.err)
}

// parseDotenv reads lines of NAME=VALUE. A value may stand in single quotes, or in double
// ones with \n, \" and \\ in it; export before a name, empty lines and lines that begin with # are
// passed over. Nothing is looked up in a value.
func parseDotenv(text string) (map[string]string, error) {
	values := map[string]string{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		if name = strings.TrimSpace(name); !ok || name == "" || strings.ContainsAny(name, " \t\"'") {
			return nil, fmt.Errorf("line %d: want NAME=VALUE", i+1)
		}
		value, err := unquoted(strings.TrimSpace(value))
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		values[name] = value
	}
	return values, nil
}

func unquoted(value string) (string, error) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		value, _, _ = strings.Cut(value, " #")
		return strings.TrimSpace(value), nil
	}
	var b strings.Builder
	escaped := false
	for i, c := range value[1:] {
		switch {
		case escaped && c == 'n':
			b.WriteByte('\n')
			escaped = false
		case escaped:
			b.WriteRune(c)
			escaped = false
		case c == '\\' && value[0] == '"':
			escaped = true
		case c == rune(value[0]):
			if rest := strings.TrimSpace(value[i+2:]); rest != "" && rest[0] != '#' {
				return "", errors.New("text behind the closing quote")
			}
			return b.String(), nil
		default:
			b.WriteRune(c)
		}
	}
	return "", errors.New("a quote without its end")
}
