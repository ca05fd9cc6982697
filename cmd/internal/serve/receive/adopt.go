package receive

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// Captured returns the captured deliveries of a source, oldest first, in two forms: as they were received, and as
// the inbox stores them.
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

// Adopt turns captured deliveries of a source into events. They were captured while the signature scheme of the
// source was not known. Adopt verifies each delivery as of the time when it arrived, and appends it to the inbox.
// It deletes deliveries that cannot be verified. It returns the number of new events. After an error, the caller
// may call Adopt again: a delivery with an id is not appended twice.
func (h *Handler) Adopt(ctx context.Context, source string) (adopted int, err error) {
	v := (*h.sources.Load())[source]
	if v == nil {
		return 0, fmt.Errorf("adopt captures: the signature scheme of %s is not known", source)
	}
	deliveries, captures, err := Captured(ctx, h.options.Inbox, source)
	if err != nil {
		return 0, fmt.Errorf("adopt captures: %w", err)
	}
	verified := false
	defer func() {
		if verified { // even after an error: some events are already in the inbox
			h.options.Received(source)
		}
	}()
	for i, c := range captures {
		if verdict, err := v.Verify(c.Received, deliveries[i]); err == nil {
			was, err := h.options.Inbox.Append(ctx, event(source, c.Received, deliveries[i], verdict))
			if err != nil {
				return adopted, fmt.Errorf("adopt captures: %w", err)
			}
			verified = true
			if was != state.Duplicate {
				adopted++
			}
		}
		if err := h.options.Inbox.Forget(ctx, source, c.Ordinal); err != nil {
			return adopted, fmt.Errorf("adopt captures: %w", err)
		}
	}
	return adopted, nil
}
