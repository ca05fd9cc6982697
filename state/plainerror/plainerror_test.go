package plainerror_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state/plainerror"
)

// goWords matches the words of Go's standard library that users do not know.
var goWords = regexp.MustCompile(`strconv|dial |lookup|json:|yaml:|EOF|context |\bopen |\bmkdir |tcp|i/o|x509|tls:|unmarshal|struct`)

// TestText makes each kind of error for real, and checks the words that users see.
func TestText(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	failed := func(_ any, err error) error { return err }
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	var number int
	for want, err := range map[string]error{
		"does not exist": failed(os.Open(filepath.Join(dir, "missing"))),
		"^stopped after 5m, or 8h, or 1h30m, or 10m5s$":                 fmt.Errorf("stopped after %s, or %s, or %s, or %s", 5*time.Minute, 8*time.Hour, 90*time.Minute, 605*time.Second),
		`^connect to 10.0.0.1:5432 \(db.example\): connection refused$`: errors.New("connect to 10.0.0.1:5432 (db.example): dial error: dial tcp 10.0.0.1:5432: connect: connection refused"),
		"is a folder":                           failed(os.ReadFile(dir)),
		"connection refused":                    failed(net.Dial("tcp", closed.Listener.Addr().String())),
		"^request .*connect to .*refused":       failed(http.Get(closed.URL)),
		"is not known$":                         &net.DNSError{Err: "no such host", Name: "nosuch.invalid", Server: "10.0.0.1:53"},
		"^listen at 127.0.0.1:.*in use":         failed(net.Listen("tcp", l.Addr().String())),
		"^the port 99999 is not valid":          failed(net.Listen("tcp", "127.0.0.1:99999")),
		"the certificate of the server is not":  failed(http.Get(secure.URL)),
		"the server speaks http, not https":     failed(http.Get("https" + plain.URL[len("http"):])),
		"^no answer in time$":                   ctx.Err(),
		`^"x" is not a number`:                  failed(strconv.Atoi("x")),
		`^"5x" is not a duration`:               failed(time.ParseDuration("5x")),
		"^unexpected string in the JSON$":       json.Unmarshal([]byte(`"x"`), &number),
		"^the JSON ends too early$":             json.Unmarshal([]byte(`{`), &number),
		"^unexpected character 'x'$":            json.Unmarshal([]byte(`x`), &number),
		`^unexpected character 'e' \(expecting`: json.Unmarshal([]byte(`te`), &number),
		`^"x" is neither true nor false$`:       failed(strconv.ParseBool("x")),
		"^the name server cannot resolve the host a.example at the moment$":    &net.DNSError{Err: "server misbehaving", Name: "a.example", Server: "10.0.0.1:53", IsTemporary: true},
		"^the name server cannot resolve the host slow.example at the moment$": &net.DNSError{Err: "read udp 10.0.0.2:5->10.0.0.1:53: i/o timeout", Name: "slow.example", Server: "10.0.0.1:53", IsTimeout: true},
		`^request "http://x": the connection was closed$`:                      &url.Error{Op: "Get", URL: "http://x", Err: io.EOF},
		"^read page.gz: the data ends too early$":                              fmt.Errorf("read page.gz: %w", io.EOF),
	} {
		require.Error(t, err, want)
		got := plainerror.Text(err.Error())
		require.Regexp(t, want, got)
		require.NotRegexp(t, goWords, got)
	}
}

// A rule replaces only its own words, not the rest of the line.
func TestTextKeepsTheRest(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"parse a.json: invalid character '}' after object key: line 3 (of 5)": "parse a.json: unexpected character '}': line 3 (of 5)",
		"open x: remote error: tls: bad certificate; ask for another":         "open x: remote error: bad certificate; ask for another",
	} {
		require.Equal(t, want, plainerror.Text(from))
	}
}

// Texts that only look similar stay as they are.
func TestTextKeepsOtherWords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"open postgres at 127.0.0.1:1: the password is wrong", "read /v2/contacts page 17: 429 too many requests", "read users: the source answered no", "write output: no space left on device", "write nowhere/out.csv: no such file or directory", "nowhere.yaml: it names no host", "a.json: empty",
		"serve tls: a unix socket has no TLS; remove `tls`", `the value is "dial tcp 10.0.0.1:1: EOF"`, `"strconv.Atoi: parsing" is no name`,
		"read /v2/contacts: 502 bad gateway: Get \"http://x\": dial tcp: lookup db: no such host (5 attempts)"} {
		require.Equal(t, text, plainerror.Text(text))
	}
}
