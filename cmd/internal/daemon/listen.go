package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
)

// Listen opens an address of the configuration, with connection limits and TLS. The parameter `key` names the section
// of the configuration that has the address, such as "serve".
func Listen(c *config.Config, key, address string, log *slog.Logger) (net.Listener, error) {
	var files *certificateFiles
	if t := c.Serve.TLS; t != nil {
		files = &certificateFiles{cert: t.Cert, key: t.Key, log: log}
		if err := files.load(time.Now()); err != nil {
			// Cause: the certificate or its key cannot be used
			return nil, failure.Hinted(err, "check the files under `serve: {tls: {cert: …, key: …}}` in the configuration")
		}
	}
	l, err := openListener(address)
	if err != nil {
		return nil, failure.Hinted(fmt.Errorf("open %s: %w", address, err), "maybe another process is using the address; `"+key+": {listen: …}` in the configuration sets the address")
	}
	l = receive.Listener(l, Connections(descriptors()), log)
	if files != nil {
		l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: files.get, NextProtos: []string{"http/1.1"}})
	}
	return l, nil
}

// socketMode is the mode of a socket file. The owner and the group may connect. For example, a proxy may belong to that
// group.
const socketMode fs.FileMode = 0o660

func openListener(address string) (net.Listener, error) {
	path := config.Socket(address)
	if path == "" {
		return net.Listen("tcp", address)
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, syscall.EADDRINUSE) && abandoned(path) {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, socketMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// The function abandoned() reports whether path is a socket on which no process listens.
func abandoned(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return false
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close() // a process listens on the socket
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// lookEvery is how often the certificate files are checked for changes.
const lookEvery = 5 * time.Second

// certificateFiles is a certificate that is read again when its files change. While the new files cannot be used, the
// previous certificate stays in use. It is safe for concurrent use.
type certificateFiles struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]stamp  // stamps of the files from which the field `current` was read
	looked  time.Time // last check for changes
	fault   string    // why the last reload failed, as logged; "" if it did not fail
}

// stamp has the properties of a file that show whether the file has changed.
type stamp struct {
	at   time.Time
	size int64
}

func stampOf(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size()}
}

// get implements tls.Config.GetCertificate.
func (f *certificateFiles) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if now.Sub(f.looked).Abs() < lookEvery {
		return f.current, nil
	}
	f.looked = now
	if was := f.stamp; was != [2]stamp{stampOf(f.cert), stampOf(f.key)} {
		f.reload(now)
	}
	return f.current, nil
}

// reload reads the files again. If they cannot be used, the next check calls reload again, even if their times and
// sizes are the same. The reason is that a repair may change only the mode of a file. Each error is logged once.
func (f *certificateFiles) reload(now time.Time) {
	err := f.load(now)
	switch {
	case err == nil:
		f.fault = ""
		f.log.Info("certificate reloaded", "until", f.current.Leaf.NotAfter.UTC().Format(time.RFC3339))
	case err.Error() != f.fault:
		f.fault = err.Error()
		f.log.Error("certificate not reloaded; the previous one stays in use", "error", err)
	}
}

// load reads the files. It returns an error if the certificate has expired.
func (f *certificateFiles) load(now time.Time) error {
	is := [2]stamp{stampOf(f.cert), stampOf(f.key)}
	c, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return fmt.Errorf("read certificate %s and key %s: %w", f.cert, f.key, err)
	}
	if now.After(c.Leaf.NotAfter) {
		return fmt.Errorf("read certificate %s: it expired on %s", f.cert, c.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	f.current, f.stamp = &c, is
	return nil
}

// soon is a period of two weeks. If a certificate expires within this period, `penstock check` warns about it.
const soon = 14 * 24 * time.Hour

// CheckTLS checks that serve can use the configured certificate, and warns if it expires soon.
func CheckTLS(ctx context.Context, c *config.Config) []check.Finding {
	t := c.Serve.TLS
	if t == nil {
		return nil
	}
	f, now := &certificateFiles{cert: t.Cert, key: t.Key}, time.Now()
	if err := f.load(now); err != nil {
		return []check.Finding{check.Failed(ctx, "serve tls", c.Fault(t.At, err.Error()), "")}
	}
	leaf := f.current.Leaf
	found := check.Finding{Part: "serve tls", OK: true, Detail: fmt.Sprintf("%s until %s", cmp.Or(strings.Join(leaf.DNSNames, ", "), leaf.Subject.CommonName, "certificate"), leaf.NotAfter.UTC().Format(time.DateOnly))}
	if leaf.NotAfter.Sub(now) < soon {
		// Cause: the certificate of the dashboard expires within two weeks
		found.Hint = "the certificate expires soon; serve loads a new one when the files change"
	}
	return []check.Finding{found}
}

// Limits of the daemon's connections, for each client address and in total. The limits for one address are high,
// because many senders and visitors may share the address of a proxy.
const (
	connectionsEach = 1024
	connectionsAll  = 4096
)

// ownDescriptors is how many file descriptors are reserved for the daemon itself: its state, its log, the
// database engine and the files of runs.
const ownDescriptors = 48

// Connections returns the limits of connections for a process that may open the given number of file descriptors. If
// the number is 0, the process may open any number. A quarter of the descriptors, and at least ownDescriptors, stay
// free for runs and files. One address gets at most two thirds of the connections, so that other webhook senders can
// still connect.
func Connections(descriptors int) receive.Connections {
	c := receive.Connections{PerAddress: connectionsEach, Total: connectionsAll}
	if descriptors > 0 {
		c.Total = max(1, min(c.Total, descriptors-max(ownDescriptors, descriptors/4)))
		c.PerAddress = max(1, min(c.PerAddress, c.Total*2/3))
	}
	return c
}
