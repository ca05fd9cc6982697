package serve

import (
	"fmt"
	"net"
	"time"
)

// Supervisor is the program that has started the daemon, for example systemd. It expects notifications in the sd_notify
// protocol. The zero value means that there is no supervisor.
type Supervisor struct {
	Socket   string        // NOTIFY_SOCKET; a leading @ means an abstract socket
	Watchdog time.Duration // the supervisor kills the daemon after this time without a notification; 0: never
}

type notifier struct {
	Supervisor
	conn net.Conn
}

func (s Supervisor) connect() *notifier {
	n := &notifier{Supervisor: s}
	path := s.Socket
	if path == "" {
		return n
	}
	if path[0] == '@' {
		path = "\x00" + path[1:]
	}
	if conn, err := net.Dial("unixgram", path); err == nil {
		n.conn = conn
	}
	return n
}

func (n *notifier) tell(state string) {
	if n.conn != nil {
		_, _ = n.conn.Write([]byte(state))
	}
}

// reloading returns the notification that a reload has begun. systemd requires that it contains the monotonic time.
func (n *notifier) reloading() string {
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds())
}

func (n *notifier) interval() time.Duration {
	if n.Watchdog <= 0 {
		return time.Minute
	}
	return max(n.Watchdog/2, 10*time.Millisecond)
}

func (n *notifier) close() error {
	if n.conn == nil {
		return nil
	}
	return n.conn.Close()
}
