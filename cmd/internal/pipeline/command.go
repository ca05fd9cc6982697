package pipeline

import (
	"strings"
	"time"
)

// Command is the result of a command that ran after a run.
type Command struct {
	Words    []string      `json:"command"` // the program and its arguments
	Result   CommandResult `json:"result"`
	ExitCode int           `json:"exit_code"` // 0 unless the result is failed
	Started  time.Time     `json:"started_at"`
	Ended    time.Time     `json:"ended_at"`
	Error    string        `json:"error,omitempty"`
	Output   string        `json:"output,omitempty"` // the end of what the command printed, without secrets
}

// CommandResult says how a command has ended.
type CommandResult string

// The results of commands.
const (
	CommandOK      CommandResult = "ok"
	CommandFailed  CommandResult = "failed"  // an exit code other than 0, or the command could not start
	CommandTimeout CommandResult = "timeout" // stopped, because its time was over
	CommandStopped CommandResult = "stopped" // stopped together with the run
)

// String returns the program and its arguments.
func (c Command) String() string { return strings.Join(c.Words, " ") }

// Took returns how long the command took.
func (c Command) Took() time.Duration { return max(0, c.Ended.Sub(c.Started)) }

// AddCommands adds the results of commands that ran after a complete run. If a command was not successful, err says
// why, and the run is only partial. If a command was stopped, the run is stopped too, for the given cause. // Invariant 14
func (r *Report) AddCommands(all []Command, err, cause error) {
	r.Commands = all
	if err != nil {
		r.Status, r.Err = StatusPartial, err
	}
	if cause != nil {
		r.Status, r.cause = StatusStopped, cause
	}
	if len(all) > 0 {
		r.Ended = all[len(all)-1].Ended
	}
}
