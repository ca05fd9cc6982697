package load

import "context"

type forRun struct{}

// ForRun returns a context for a run or for webhook events. If a command of `after` uses a file of a destination, reads
// with this context wait until the command has ended, so that the run does not fail. Other reads are for people who look
// at data. They return an error after a short wait.
func ForRun(ctx context.Context) context.Context { return context.WithValue(ctx, forRun{}, true) }

// IsForRun reports whether [ForRun] has returned ctx, or a context from which ctx was derived.
func IsForRun(ctx context.Context) bool { return ctx.Value(forRun{}) != nil }
