//go:build unix

package pgtest

import (
	"os"
	"sync"
	"testing"
)

// shared is the server of [Shared], and nil before its first use.
var shared struct {
	sync.Mutex
	server *Server
}

// Shared creates a database in a server that all tests of this process share. The package's TestMain must call [Main].
// A new server would cost a quarter of a second of processor time for each test. If a test stops the server, reads its
// log or creates roles, it must use [Start] instead.
func Shared(t testing.TB) *Server {
	t.Helper()
	if os.Getenv(Env) != "" {
		return Start(t)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		s := newServer(t)
		defer func() {
			if shared.server == nil { // it did not start
				s.remove()
			}
		}()
		s.launch()
		shared.server = s
	}
	return borrow(t, shared.server.URL())
}

// Main runs the tests of a package, removes the server of [Shared], and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.remove()
	}
	return code
}
