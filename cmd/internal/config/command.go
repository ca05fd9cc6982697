package config

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// rereadEvery is the least time between two runs of a command after servers have refused its output.
const rereadEvery = 30 * time.Second

// failingTime limits the total time of failing commands. There may be thousands of sources, each with a command of its
// own. If the secret manager is locked, each command could wait for a timeout. // Invariant 15
const failingTime = time.Minute

// commands is a cache of outputs. It runs each ${cmd:…} only once, even if a template uses the same command for
// thousands of sources. It is safe for concurrent use.
type commands struct {
	run func(argv []string) (string, error)

	mu      sync.Mutex
	outputs map[string]*output // by program and arguments
	failed  time.Duration      // total time of failed commands
}

type output struct {
	mu        sync.Mutex // locked while the command runs
	text      string
	err       error
	ran       bool
	lastRerun time.Time // when the method [commands.again] last ran the command
}

// once returns the output of a command. It runs the command only the first time.
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

// failing adds a duration to the total time of failed commands, and returns the total.
func (c *commands) failing(elapsed time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += elapsed
	return c.failed
}

// again runs a command once more, because a server has refused its output. It runs the command at most once per
// rereadEvery.
func (c *commands) again(argv []string) (string, error) {
	o := c.of(argv)
	o.mu.Lock()
	defer o.mu.Unlock()
	if since := time.Since(o.lastRerun); o.lastRerun.IsZero() || since < 0 || since >= rereadEvery {
		o.text, o.err = c.run(argv)
		o.ran, o.lastRerun = true, time.Now()
	}
	return o.text, o.err
}

func (c *commands) of(argv []string) *output {
	key := strings.Join(argv, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outputs == nil {
		c.outputs = map[string]*output{}
	}
	if c.outputs[key] == nil {
		c.outputs[key] = &output{}
	}
	return c.outputs[key]
}
