package serve

import (
	"fmt"
	"net"
	"time"
)

// Supervisor is who has started the daemon and wants to know how it is: systemd,
// or another that speaks its protocol. The zero value is nobody.
type Supervisor struct {
	Socket   string        // its NOTIFY_SOCKET; one that begins with @ is an abstract name
	Watchdog time.Duration // it ends a daemon that is silent for so long; 0: it does not
}

// notifier tells a supervisor.
type notifier struct {
	Supervisor
	conn net.Conn
}

// connect opens the way to the supervisor. One that cannot be told anything is
// no reason not to serve.
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

// tell sends a state. What does not arrive is sent for nothing: the supervisor
// finds out by itself.
func (n *notifier) tell(state string) {
	if n.conn != nil {
		_, _ = n.conn.Write([]byte(state))
	}
}

// reloading is the state of a reload, with the time on the clock that systemd
// goes by.
func (n *notifier) reloading() string {
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", monotonic().Microseconds())
}

// interval is how often to give a sign of life: twice in the time after which
// the supervisor loses patience.
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
