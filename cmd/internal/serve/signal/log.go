package signal

import (
	"context"
	"fmt"
	"log/slog"
)

// Redacted returns a log handler that passes records to h, without the secrets that redact knows. // Invariant 5
func Redacted(h slog.Handler, redact func(string) string) slog.Handler {
	return &redacted{Handler: h, redact: redact}
}

type redacted struct {
	slog.Handler
	redact func(string) string
}

// Handle passes the record to h without secrets.
func (h *redacted) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, h.redact(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs returns a handler that adds the attributes, without secrets, to each record.
func (h *redacted) WithAttrs(as []slog.Attr) slog.Handler {
	clean := make([]slog.Attr, len(as))
	for i, a := range as {
		clean[i] = h.attr(a)
	}
	return &redacted{Handler: h.Handler.WithAttrs(clean), redact: h.redact}
}

// WithGroup returns a handler that puts later attributes into a group.
func (h *redacted) WithGroup(name string) slog.Handler {
	return &redacted{Handler: h.Handler.WithGroup(name), redact: h.redact}
}

func (h *redacted) attr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(h.redact(v.String()))
	case slog.KindGroup:
		var in []slog.Attr
		for _, one := range v.Group() {
			in = append(in, h.attr(one))
		}
		v = slog.GroupValue(in...)
	case slog.KindAny:
		if text := fmt.Sprint(v.Any()); h.redact(text) != text {
			v = slog.StringValue(h.redact(text))
		}
	}
	return slog.Attr{Key: a.Key, Value: v}
}
