// Package after runs the commands that a pipeline has under `after`, and stores their results in the state.
//
// A supervisor runs each command: a process of this program, which [Supervise] implements. It ends the command and all
// of its child processes when the command is stopped, and also if this process is killed or suspended.
package after

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Command is a command to run.
type Command struct {
	Words   []string          // the program and its arguments
	Env     map[string]string // variables, besides those in [inherited]
	Dir     string            // working folder
	Timeout time.Duration
	Redact  func(string) string // removes secrets from the output // Invariant 5
	Now     func() time.Time
}

// inherited lists the variables that a command gets from the environment of this process. The environment can have
// secrets of sources and destinations, so a command gets no other variable. // Invariant 5
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR",
	"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "APPDATA", "LOCALAPPDATA",
}

// environment returns the variables of the command.
func (c Command) environment() []string {
	all := []string{"NO_COLOR=1"}
	for _, name := range inherited {
		if text, ok := os.LookupEnv(name); ok {
			all = append(all, name+"="+text)
		}
	}
	for name, text := range c.Env {
		all = append(all, name+"="+text) // the last value of a variable applies
	}
	return all
}

// Program returns the path of the program. A name without a slash is looked up in PATH. Another relative name is
// relative to the working folder.
func (c Command) Program() (string, error) {
	name := c.Words[0]
	if filepath.IsAbs(name) {
		return exec.LookPath(name)
	}
	if strings.ContainsRune(filepath.ToSlash(name), '/') {
		return exec.LookPath(filepath.Join(c.Dir, name))
	}
	path, own := c.Env["PATH"]
	if !own {
		path = os.Getenv("PATH")
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.Dir, dir)
		}
		if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("no program %q in PATH", name)
}

// Run runs the command until it ends, its time is over, or ctx ends.
func (c Command) Run(ctx context.Context) pipeline.Command {
	r := pipeline.Command{Words: c.Words, Result: pipeline.CommandFailed, Started: c.Now()}
	out := &tail{}
	limited, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err := c.run(limited, out)
	r.Ended, r.Output = c.Now(), out.text(c.Redact)
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		r.Result = pipeline.CommandOK
	case ctx.Err() != nil:
		r.Result, r.Error = pipeline.CommandStopped, "stopped before its end"
	case limited.Err() != nil:
		r.Result, r.Error = pipeline.CommandTimeout, fmt.Sprintf("did not end within %s", c.Timeout)
	case exited:
		r.ExitCode, r.Error = exit.ExitCode(), fmt.Sprintf("exit code %d", exit.ExitCode())
	default:
		r.Error = c.Redact(err.Error())
	}
	return r
}

func (c Command) run(ctx context.Context, out *tail) error {
	program, err := c.Program()
	if err != nil {
		return err
	}
	self := "/proc/self/exe" // also exists if the file of this program was replaced
	if runtime.GOOS != "linux" {
		if self, err = os.Executable(); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = slices.Concat([]string{"penstock", Supervisor, silence.String(), program}, c.Words[1:])
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.Dir, c.environment(), out, out
	alive, err := cmd.StdinPipe() // the supervisor ends the command when nothing has the pipe open any more
	if err != nil {
		return err
	}
	go func() {
		for range time.Tick(beat) {
			if _, err := alive.Write([]byte{0}); err != nil { // the supervisor has ended
				return
			}
		}
	}()
	ownGroup(cmd)
	cmd.Cancel, cmd.WaitDelay = alive.Close, killGrace+supervisorGrace // Invariant 15
	if err = cmd.Run(); errors.Is(err, exec.ErrWaitDelay) {
		return nil // the command has succeeded, and a process that has left its group still has the output open
	}
	return err
}

// supervisorGrace is how much longer than killGrace the supervisor may take to end. Then it is killed. Together they are
// shorter than the time in which a daemon must stop. // Invariant 15
const supervisorGrace = 4 * time.Second

// Limits of the output of a command, in bytes. // Invariant 6
const (
	mostRead = 64 << 10 // of the end, before secrets are removed
	mostKept = 16 << 10
)

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
	cut  bool
}

// Write adds p.
func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if more := len(t.data) - mostRead; more > 0 {
		t.data, t.cut = append(t.data[:0], t.data[more:]...), true
	}
	return len(p), nil
}

// controls matches the control sequences with which programs color their output.
var controls = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// text returns the last lines, without secrets. A line whose beginning is not kept is left out, because it may begin
// within a secret. No secret has a line break.
func (t *tail) text(redact func(string) string) string {
	text := string(t.data)
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
	}
	text = redact(controls.ReplaceAllString(strings.ToValidUTF8(text, ""), "")) // redact last: a sequence may interrupt a secret // Invariant 5
	if more := len(text) - mostKept; more > 0 {
		text = text[more:]
		_, text, _ = strings.Cut(text, "\n")
	}
	return strings.TrimRight(text, " \r\n")
}
