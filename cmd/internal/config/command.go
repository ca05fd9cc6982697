package config

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// rereadEvery limits how often a command runs again after servers refuse its output.
const rereadEvery = 30 * time.Second

// failingTime limits the total time of failing commands. Each of thousands of sources may have its own
// command, and a locked secret manager lets each of them time out. // Invariant 15
const failingTime = time.Minute

// commands runs each ${cmd:…} once, because a template may name the same command for thousands of sources. It
// is safe for concurrent use.
type commands struct {
	run func(argv []string) (string, error)

	mu     sync.Mutex
	all    map[string]*output // outputs by the words of the command
	failed time.Duration      // total time of commands that failed in once
}

type output struct {
	mu    sync.Mutex // locked while the command runs
	text  string
	err   error
	ran   bool
	again time.Time // time of the last run by again
}

func (c *commands) once(argv []string) (string, error) {
	o := c.of(argv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ran {
		return o.text, o.err
	}
	if c.failing(0) >= failingTime {
		return "", fmt.Errorf("not run, because other commands of the configuration failed for %s", failingTime)
	}
	began := time.Now()
	o.text, o.err = c.run(argv)
	o.ran = true
	if o.err != nil {
		c.failing(time.Since(began))
	}
	return o.text, o.err
}

func (c *commands) failing(more time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += more
	return c.failed
}

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
