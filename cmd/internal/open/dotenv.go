package open

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// dotenv is the file .env beside the configuration. Environment variables take precedence over it. The file is
// read when a variable is missing in the environment, and again when the file has changed. A dotenv is safe for
// concurrent use.
type dotenv struct {
	path string

	mu     sync.Mutex
	values map[string]string
	from   fs.FileInfo
	err    error  // why the file is not used
	text   string // content of a file that is not used, to find out whether it assigns a variable
	hides  bool   // the file is not used, but assigns a variable that was looked up
}

func newDotenv(config string) *dotenv {
	return &dotenv{path: filepath.Join(filepath.Dir(config), ".env")}
}

// Environment returns a function that looks up a variable in the environment, or else in the file .env beside the
// configuration. It is safe for concurrent use.
func Environment(config string) func(name string) (string, bool) { return newDotenv(config).lookup }

// lookup returns a variable of the environment, or else of the file.
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
		d.from = info
		d.read()
	}
	if d.err != nil {
		d.hides = d.hides || assigns(d.text, name)
		return "", false
	}
	v, ok := d.values[name]
	return v, ok
}

// read reads the file. It rejects a file that other users can read.
func (d *dotenv) read() {
	d.values, d.text, d.hides = nil, "", false
	text, err := ReadSecret(d.path)
	if err == nil {
		d.values, err = parseDotenv(text)
	}
	if d.err = err; err != nil {
		data, _ := ReadUpTo(d.path, maxSecret) // if this fails too, err already has the cause
		d.text = string(data)
	}
}

// trouble returns why the file is not used. It returns nil if the file is used, or was not needed. The second result is
// true if the file assigns a variable that was looked up and not found. The caller must then report the error.
// Otherwise an optional variable, such as the key of the state, would be ignored silently.
func (d *dotenv) trouble() (err error, missed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		return nil, false
	}
	return fmt.Errorf("%s is not read: %w", d.path, d.err), d.hides
}

// parseDotenv parses lines of NAME=VALUE. A value may be in single quotes, or in double quotes with the escapes \n, \"
// and \\. Empty lines, lines that begin with #, and the word `export` before a name are ignored. A $ in a value has no
// special meaning. A single quote within single quotes is written as in a shell:
//
//	NAME='it'\''s'
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

// assigns reports whether a line of the text assigns a value to the named variable. The text need not be valid.
func assigns(text, name string) bool {
	for line := range strings.Lines(text) {
		assigned, _, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		if ok && strings.TrimSpace(assigned) == name {
			return true
		}
	}
	return false
}

func unquoted(value string) (string, error) {
	if value == "" || value[0] != '"' && value[0] != '\'' {
		value, _, _ = strings.Cut(value, " #")
		return strings.TrimSpace(value), nil
	}
	cut := cutDouble
	if value[0] == '\'' {
		cut = cutSingle
	}
	text, rest, ok := cut(value[1:])
	if !ok {
		return "", errors.New("a quote is not closed")
	}
	if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
		return "", errors.New("text after the closing quote")
	}
	return text, nil
}

// cutSingle returns the text before the closing single quote, and the rest after the quote.
func cutSingle(value string) (text, rest string, ok bool) {
	text, rest, ok = strings.Cut(value, "'")
	if after, quote := strings.CutPrefix(rest, `\''`); quote {
		var more string
		more, rest, ok = cutSingle(after)
		text += "'" + more
	}
	return text, rest, ok
}

// cutDouble returns the unescaped text before the closing double quote, and the rest after the quote.
func cutDouble(value string) (text, rest string, ok bool) {
	var b strings.Builder
	escaped := false
	for i, c := range value {
		switch {
		case escaped && c == 'n':
			b.WriteByte('\n')
			escaped = false
		case escaped:
			b.WriteRune(c)
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"':
			return b.String(), value[i+1:], true
		default:
			b.WriteRune(c)
		}
	}
	return "", "", false
}
