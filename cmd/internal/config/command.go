package config

import (
	"strings"
	"sync"
	"time"
)

// rereadEvery bounds how often a command runs again because a server refuses what it
// printed, however many sources take their credential from it.
const rereadEvery = 30 * time.Second

// commands runs the commands of ${cmd:…}. Each runs once while the configuration is read:
// a template may name the same one for thousands of sources. It is safe for concurrent use.
type commands struct {
	run func(argv []string) (string, error)

	mu  sync.Mutex
	all map[string]*output // by the words of the command
}

// output is what a command printed, or why it failed.
type output struct {
	mu    sync.Mutex // held while the command runs
	text  string
	err   error
	ran   bool
	again time.Time // when it last ran in again
}

// once returns what a command printed, and runs it if it did not run yet.
func (c *commands) once(argv []string) (string, error) {
	o := c.of(argv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ran {
		o.text, o.err = c.run(argv)
		o.ran = true
	}
	return o.text, o.err
}

// again returns what a command prints now. It runs the command unless again has done so
// in the last [rereadEvery].
func (c *commands) again(argv []string) (string, error) {
	o := c.of(argv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if since := time.Since(o.again); o.again.IsZero() || since < 0 || since >= rereadEvery {
		o.text, o.err = c.run(argv)
		o.ran, o.again = true, time.Now()
	}
	return o.text, o.err
}

func (c *commands) of(argv []string) *output {
	key := strings.Join(argv, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*output{}
	}
	if c.all[key] == nil {
		c.all[key] = &output{}
	}
	return c.all[key]
}
