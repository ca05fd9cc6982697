package daemon

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/cmd/internal/signature"
	"github.com/penstock-data/penstock/state"
)

// pinEvery is how often the receiver looks for newly learned signature schemes.
const pinEvery = 2 * time.Second

// Receiver verifies the signatures of webhook deliveries. The signature scheme of a source is either configured, or was
// found by `webhooks learn`. The receiver is safe for concurrent use.
type Receiver struct {
	*receive.Handler
	log *slog.Logger

	notes state.Notes

	mu   sync.Mutex
	conf *config.Config
	pins map[string][]byte // learned schemes by source, from the last read

	headers atomic.Pointer[map[string]string] // expected signature header by source
}

// NewReceiver returns a receiver for the sources of c, with the learned schemes in notes.
func NewReceiver(ctx context.Context, c *config.Config, notes state.Notes, o receive.Options) (*Receiver, error) {
	r := &Receiver{log: o.Log, notes: notes}
	o.Signed = r.signed
	r.Handler = receive.New(o)
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, r.Reconfigure(ctx, c)
}

// Reconfigure makes the receiver accept deliveries for the sources of c. If it returns an error, nothing
// has changed.
func (r *Receiver) Reconfigure(ctx context.Context, c *config.Config) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.redefine(ctx, c)
}

// redefine does the work of Reconfigure. The caller must hold mu.
func (r *Receiver) redefine(ctx context.Context, c *config.Config) error {
	pins, err := ReadPins(ctx, c, r.notes)
	if err != nil {
		return err
	}
	sources, err := Verifiers(c, pins)
	if err != nil {
		return err
	}
	r.conf, r.pins = c, pins
	headers := map[string]string{}
	for _, s := range c.Sources {
		if s.Webhooks != nil {
			headers[s.Name] = s.Webhooks.Header
		}
	}
	r.headers.Store(&headers)
	r.Define(sources)
	return nil
}

// The method signed() reports whether a delivery has the signature header of its source.
func (r *Receiver) signed(source string, h http.Header) bool {
	return h.Get((*r.headers.Load())[source]) != ""
}

// Watch runs until ctx ends. It applies newly learned schemes, and turns captured deliveries into events.
func (r *Receiver) Watch(ctx context.Context) {
	tick := time.NewTicker(pinEvery)
	defer tick.Stop()
	for {
		r.Update(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Update applies newly learned schemes, and turns captured deliveries into events.
func (r *Receiver) Update(ctx context.Context) {
	r.refresh(ctx)
	r.adopt(ctx)
}

// refresh passes the sources to the receiver again if a learned scheme has changed.
func (r *Receiver) refresh(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pins, err := ReadPins(ctx, r.conf, r.notes)
	if err != nil {
		r.log.Error("webhooks keep the previous schemes", "error", err)
		return
	}
	changed := false
	for name, text := range pins {
		if !bytes.Equal(text, r.pins[name]) {
			r.log.Info("learned a signature scheme; deliveries are verified from now on", "source", name)
			changed = true
		}
	}
	if !changed {
		return
	}
	if err := r.redefine(ctx, r.conf); err != nil {
		r.pins = pins // remember the schemes, so that the error is logged only once
		r.log.Error("webhooks keep the previous schemes", "error", err)
	}
}

// adopt turns captured deliveries into events, for sources whose scheme is known. If it fails, the next call of Update
// tries again.
func (r *Receiver) adopt(ctx context.Context) {
	for _, source := range r.verified() {
		n, err := r.Adopt(ctx, source)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			r.log.Warn("captured deliveries wait", "source", source, "error", err)
		case n > 0:
			r.log.Info("captured deliveries became events", "source", source, "events", n)
		}
	}
}

// The method verified() returns the sources whose scheme is known.
func (r *Receiver) verified() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, s := range r.conf.Sources {
		if w := s.Webhooks; w != nil && (len(w.Schemes) > 0 || r.pins[s.Name] != nil) {
			all = append(all, s.Name)
		}
	}
	return all
}

// Scheme returns the name of the scheme that verifies the deliveries of a source. It returns "" if the scheme is
// not known yet.
func (r *Receiver) Scheme(s config.Source) string {
	if len(s.Webhooks.Schemes) > 0 {
		return s.Webhooks.Schemes[0].Name
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.pins[s.Name]
	if text == nil {
		return ""
	}
	pinned, err := config.ParsePin(PinLocation(r.conf, s.Name), text, s.Webhooks.Header)
	if err != nil {
		return "" // redefine or refresh has reported the error
	}
	return pinned.Name
}

// ReadPins reads the learned schemes. It skips a source with a configured scheme, because a configured scheme has
// priority.
func ReadPins(ctx context.Context, c *config.Config, notes state.Notes) (map[string][]byte, error) {
	pins := map[string][]byte{}
	for _, s := range c.Sources {
		if s.Webhooks == nil || len(s.Webhooks.Schemes) > 0 {
			continue
		}
		text, err := notes.Note(ctx, PinName(s.Name))
		if err != nil {
			return nil, badPin(c, s, err)
		}
		if text != nil {
			pins[s.Name] = text
		}
	}
	return pins, nil
}

// Verifiers returns a verifier for each source that receives webhooks. The verifier is nil until the scheme is
// learned.
func Verifiers(c *config.Config, pins map[string][]byte) (receive.Sources, error) {
	all := receive.Sources{}
	for _, s := range c.Sources {
		w := s.Webhooks
		if w == nil {
			continue
		}
		schemes := w.Schemes
		if text := pins[s.Name]; text != nil {
			scheme, err := config.ParsePin(PinLocation(c, s.Name), text, w.Header)
			if err != nil {
				return nil, badPin(c, s, err)
			}
			schemes = []signature.Scheme{scheme}
		}
		all[s.Name] = nil
		if len(schemes) == 0 {
			continue
		}
		v, err := signature.Compile(schemes, w.Keys)
		if err != nil {
			return nil, badPin(c, s, err) // this is a learned scheme, because configured schemes were checked when the file was read
		}
		all[s.Name] = v
	}
	return all, nil
}

// PinName is the name of the note with the learned scheme of a source.
func PinName(source string) string { return "webhooks/" + source + ".yaml" }

// PinLocation describes where the note with the learned scheme is, for messages.
func PinLocation(c *config.Config, source string) string {
	if c.State.URL != "" {
		return "note " + PinName(source) + " of the state"
	}
	return filepath.Join(c.State.Dir, filepath.FromSlash(PinName(source)))
}

func badPin(c *config.Config, s config.Source, err error) error {
	return failure.Usage(fmt.Sprintf("remove %[2]s, then `penstock webhooks learn %[1]s` learns again; or set a scheme in %[3]s", s.Name, PinLocation(c, s.Name), c.File),
		"webhooks of source %s: %w", s.Name, err)
}
