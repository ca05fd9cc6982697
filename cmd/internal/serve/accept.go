package serve

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// reportingListener logs when it cannot take a connection, for example because every
// descriptor is in use. The server itself tries again without a word.
type reportingListener struct {
	net.Listener
	log  *slog.Logger
	told time.Time // one goroutine accepts
}

// tellEvery keeps a lack that lasts from filling the log.
const tellEvery = time.Minute

// Accept waits for the next connection.
func (l *reportingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) && time.Since(l.told) >= tellEvery {
		l.told = time.Now()
		l.log.Warn("no connection can be taken; tried again", "error", err, "hint", "raise the limit of open files: ulimit -n, or LimitNOFILE of the unit")
	}
	return c, err
}
