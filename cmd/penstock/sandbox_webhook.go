package main

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/sandbox"
)

// sandboxSecret is the default signing secret. Every signature scheme accepts it.
const sandboxSecret = "whsec_c2FuZGJveA=="

// hookFlags are the flags for [sandbox.Webhook].
type hookFlags struct {
	webhook      sandbox.Webhook
	fault, flood string
}

func (f *hookFlags) register(fl *pflag.FlagSet) {
	w := &f.webhook
	fl.StringVar(&w.URL, "webhook", "", "`URL` that receives every change")
	fl.StringVar(&w.Secret, "webhook-secret", sandboxSecret, "`secret` that signs deliveries")
	fl.StringVar((*string)(&w.Scheme), "webhook-scheme", string(sandbox.Stripe), "signature `scheme`: stripe, hex, base64, standard or slack")
	fl.IntVar(&w.Connections, "webhook-connections", 1, "`number` of concurrent deliveries; 1 keeps their order")
	fl.StringVar(&f.fault, "webhook-fault", "", "`shares` of deliveries that go wrong, such as duplicate=0.1,loss=0.05")
	fl.StringVar(&f.flood, "webhook-flood", "", "many deliveries at once, such as `rate=1700,for=1m`")
}

// parse returns the webhook and the flood that the flags describe. If a flag is not set, the value for it is nil.
func (f *hookFlags) parse() (*sandbox.Webhook, *sandbox.Flood, error) {
	const see = "`penstock sandbox --help` lists the names"
	if f.webhook.URL == "" {
		if f.fault != "" || f.flood != "" {
			return nil, nil, failure.Usage("", "--webhook-fault and --webhook-flood need --webhook")
		}
		return nil, nil, nil
	}
	w := f.webhook
	var err error
	if f.fault != "" {
		if w.Faults, err = sandbox.ParseWebhookFaults(f.fault); err != nil {
			return nil, nil, failure.Usage(see, "--webhook-fault: %w", err)
		}
	}
	if f.flood == "" {
		return &w, nil, nil
	}
	flood, err := sandbox.ParseFlood(f.flood)
	if err != nil {
		return nil, nil, failure.Usage(see, "--webhook-flood: %w", err)
	}
	return &w, &flood, nil
}

func (s *served) subscribe(w *sandbox.Webhook) error {
	if w == nil {
		return nil
	}
	if w.Connections < 1 {
		return failure.Usage("", "--webhook-connections must be at least 1")
	}
	if _, err := s.handler.Subscribe(*w); err != nil {
		return failure.Usage("", "%w", err)
	}
	return nil
}

// flood sends a flood of deliveries while the sandbox serves. An interrupt is not an error.
func (s *served) flood(ctx context.Context, f *sandbox.Flood) error {
	if f == nil {
		return nil
	}
	_, err := s.handler.Flood(ctx, *f)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
