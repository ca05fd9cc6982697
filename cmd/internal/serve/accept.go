package serve

import (
	"errors"
	"log/slog"
	"net"
	"time"
)

// noticeQueue is a listener that says when it can take no connection, as where every
// descriptor is in use: the server tries again, and would else do so silently.
type noticeQueue struct {
	net.Listener
	log  *slog.Logger
	told time.Time // one goroutine accepts
}

// tellEvery keeps a lack that lasts from filling the log.
const tellEvery = time.Minute

// Accept waits for the next connection.
func (l *noticeQueue) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil && !errors.Is(err, net.ErrClosed) && time.Since(l.told) >= tellEvery {
		l.told = time.Now()
		l.log.Warn("no connection can be taken; tried again", "error", err, "hint", "raise the limit of open files: ulimit -n, or LimitNOFILE of the unit")
	}
	return c, err
}
