package receive

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// Captured returns the deliveries that were captured for a source, oldest first,
// as they were received, and their events of the inbox beside them.
func Captured(ctx context.Context, inbox Inbox, source string) ([]signature.Delivery, []state.Event, error) {
	captures, err := inbox.Captures(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	deliveries := make([]signature.Delivery, len(captures))
	for i, e := range captures {
		deliveries[i] = captureDelivery(e)
	}
	return deliveries, captures, nil
}

// Adopt makes events of what was captured for a source before its scheme was
// known: each delivery is verified, as of the time when it came, and then goes
// the way of all others. Those that cannot be verified are of no use, and are
// forgotten. It returns how many were appended; called again after an error it
// goes on, and appends nothing twice that has an id.
func (h *Handler) Adopt(ctx context.Context, source string) (adopted int, err error) {
	v := (*h.sources.Load())[source]
	if v == nil {
		return 0, fmt.Errorf("adopt captures: the scheme of %s is not known", source)
	}
	deliveries, captures, err := Captured(ctx, h.Inbox, source)
	if err != nil {
		return 0, fmt.Errorf("adopt captures: %w", err)
	}
	verified := false
	defer func() {
		if verified { // after an error, too: what is an event already is no capture the next time
			h.Received(source)
		}
	}()
	for i, c := range captures {
		if verdict, err := v.Verify(c.Received, deliveries[i]); err == nil {
			was, err := h.Inbox.Append(ctx, event(source, c.Received, deliveries[i], verdict))
			if err != nil {
				return adopted, fmt.Errorf("adopt captures: %w", err)
			}
			verified = true
			if was != state.Duplicate {
				adopted++
			}
		}
		if err := h.Inbox.Forget(ctx, source, c.Ordinal); err != nil {
			return adopted, fmt.Errorf("adopt captures: %w", err)
		}
	}
	return adopted, nil
}
