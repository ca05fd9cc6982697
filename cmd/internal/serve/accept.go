package serve

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// reportingListener logs when it cannot accept a connection, for example because all file descriptors are in
// use. The server itself retries silently.
type reportingListener struct {
	net.Listener
	log  *slog.Logger
	told time.Time // time of the last log line; not locked, because only one goroutine calls Accept
}

const tellEvery = time.Minute

// Accept waits for the next connection.
func (l *reportingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) && time.Since(l.told) >= tellEvery {
		l.told = time.Now()
		l.log.Warn("cannot accept a connection; retrying", "error", err, "hint", "raise the limit of open files: ulimit -n, or LimitNOFILE in the systemd unit")
	}
	return c, err
}
