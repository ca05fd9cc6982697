package config

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// rereadEvery bounds how often a command runs again because a server refuses what it
// printed, however many sources take their credential from it.
const rereadEvery = 30 * time.Second

// failingTime is how long failing commands may take together while the configuration is
// read. After it no other command runs. Each of thousands of sources may have a command of
// its own, and a locked secret manager lets each of them time out. // Invariant 15
const failingTime = time.Minute

// commands runs the commands of ${cmd:…}. Each runs once while the configuration is read:
// a template may name the same one for thousands of sources. It is safe for concurrent use.
type commands struct {
	run func(argv []string) (string, error)

	mu     sync.Mutex
	all    map[string]*output // by the words of the command
	failed time.Duration      // what commands took that failed in once
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
	if o.ran {
		return o.text, o.err
	}
	if c.failing(0) >= failingTime {
		return "", fmt.Errorf("not run, as other commands of the configuration failed for %s", failingTime)
	}
	began := time.Now()
	o.text, o.err = c.run(argv)
	o.ran = true
	if o.err != nil {
		c.failing(time.Since(began))
	}
	return o.text, o.err
}

// failing adds to what commands took that failed, and returns it.
func (c *commands) failing(more time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += more
	return c.failed
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
