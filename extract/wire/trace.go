package wire

import "context"

type traceKey struct{}

// WithTrace returns a context that reports reads. [Client.Read] calls begin() when a read with this context begins, and
// end() when it ends. In between, the read sends requests, or waits until it may send them. The calls may come from any
// goroutine, and must not block.
func WithTrace(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, traceKey{}, begin)
}

// BeginRead reports to the trace of ctx that a read begins. The caller must call end() when the read ends. BeginRead is
// exported for tests that simulate a source.
func BeginRead(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(traceKey{}).(func() (end func())); ok {
		return begin()
	}
	return func() {}
}
