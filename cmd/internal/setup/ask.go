package setup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// Ask asks the questions that no flag has answered, and checks each answer before the next question. The function
// found() reads the source and returns lines that say what is there. It is nil if nothing is checked.
func Ask(ctx context.Context, o *open.Opener, p *Prompt, s *Setup, found func(context.Context, *config.Config) ([]string, error)) error {
	c := &conversation{opener: o, Prompt: p, Setup: s, found: found, flagged: s.V2URL != "" || s.AppURL != ""}
	fmt.Fprintln(p.out, "A few questions. An empty answer takes the default in brackets, if there is one.")
	for _, step := range []func(context.Context) error{c.versioned, c.application, c.show, c.destination, c.choice, c.schedule} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	s.Fill()
	_, err := Parse(o, *s)
	return err
}

// conversation is the state of init's questions.
type conversation struct {
	*Prompt
	*Setup
	opener  *open.Opener
	found   func(context.Context, *config.Config) ([]string, error)
	flagged bool // a flag has set the address of a surface
}

// ask repeats a question until the answer is valid, and stores the answer in *to. If a flag has already set *to, ask
// does not ask the question, and only checks the value of the flag.
func (c *conversation) ask(ctx context.Context, question, preset string, to *string) error {
	given := *to
	for {
		if given == "" {
			text, err := c.line(ctx, question, preset)
			if err != nil {
				return err
			}
			if *to = text; text == "-" {
				*to = ""
			}
		}
		faults, err := c.faults()
		if err != nil || len(faults) == 0 {
			return err
		}
		if given != "" {
			return faults
		}
		for _, f := range faults {
			fmt.Fprintln(c.out, "  "+f.Message)
		}
		*to = ""
	}
}

// faults returns what is wrong with the answers so far.
func (c *conversation) faults() (config.Faults, error) {
	if c.V2URL == "" && c.AppURL == "" {
		return nil, nil // a configuration without a source cannot be parsed; more answers follow
	}
	_, err := Parse(c.opener, *c.Setup)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		return faults, nil
	}
	return nil, err
}

func (c *conversation) versioned(ctx context.Context) error {
	if c.V2URL == "" && c.flagged {
		return nil
	}
	return c.surface(ctx, surface{
		kind: schemas.SurfaceV2, url: &c.V2URL, variable: KeyVariable,
		address: "address of the versioned surface, such as https://api.example.com", credential: "API key, from Settings, Developers, API keys",
	})
}

func (c *conversation) application(ctx context.Context) error {
	if c.AppURL == "" && c.flagged {
		return nil // the flags set only the other surface
	}
	err := c.surface(ctx, surface{
		kind: schemas.SurfaceApp, url: &c.AppURL, variable: TokenVariable,
		address: "address of the application surface, such as https://app.example.com", credential: "token, from Settings, API keys",
	})
	if err == nil && c.AppURL == "" && c.V2URL == "" {
		return failure.Usage("", "an address is needed: there is nothing to read without one")
	}
	return err
}

// surface has the questions about one surface.
type surface struct {
	kind                          schemas.Surface
	url                           *string // the answer
	variable, address, credential string
}

// surface asks for the address and the credential of a surface until they work, or until the user keeps them anyway.
// When it asks again, an empty answer keeps the previous one.
func (c *conversation) surface(ctx context.Context, s surface) error {
	fixed := *s.url != ""
	for again := false; ; again = true {
		if !fixed {
			before := *s.url
			*s.url = ""
			if err := c.ask(ctx, s.address, before, s.url); err != nil {
				return err
			}
			if *s.url == "" {
				delete(c.Typed, s.variable)
				return nil
			}
		}
		if s.kind == schemas.SurfaceV2 && c.Plan == "" {
			if err := c.ask(ctx, "plan of the workspace: free, pro, business or agency", "pro", &c.Plan); err != nil {
				return err
			}
		}
		if good, err := c.credential(ctx, s, again); good || err != nil {
			return err
		}
		advice := "  Change the answers that are wrong. An empty answer keeps the previous one"
		if !fixed {
			advice += "; - as the address leaves the surface out"
		}
		fmt.Fprintln(c.out, advice+".")
	}
}

// credential prompts for a secret, unless the environment has it. Then it checks the secret with a request. It returns
// true if the secret works, or if the user wants to keep it anyway.
func (c *conversation) credential(ctx context.Context, s surface, again bool) (bool, error) {
	_, set := c.lookup(s.variable)
	switch {
	case set && !again:
		fmt.Fprintf(c.out, "  using %s from the environment\n", s.variable)
	default:
		secret, err := c.secret(ctx, s.credential)
		if err != nil {
			return false, err
		}
		if secret != "" {
			c.Typed[s.variable] = secret
		} else if !set {
			fmt.Fprintf(c.out, "  set %s later; it is not checked now\n", s.variable)
			return true, nil
		}
	}
	return c.tries(ctx, func(conf *config.Config) []check.Finding {
		if src := &conf.Sources[0]; s.kind == schemas.SurfaceApp {
			src.V2 = nil // this surface was checked before
		}
		return check.Source(ctx, c.opener, conf, conf.Pipelines[0], conf.Pipelines[0].From[0])
	})
}

// show prints what the source has: streams, rows, and lists that the credentials may not read.
func (c *conversation) show(ctx context.Context) error {
	if c.found == nil || len(c.missing()) > 0 {
		return nil
	}
	conf, err := Parse(c.opener, *c.Setup)
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, "  reading the first page of each list …")
	lines, err := c.found(ctx, conf)
	for _, line := range lines {
		fmt.Fprintln(c.out, "  "+line)
	}
	return err
}

// missing returns the variables of credentials that have no value.
func (c *conversation) missing() []string {
	source := *c.Setup
	source.To = nil
	return source.Lacking()
}

// tries() checks the last answer with the function look, and prints the findings. It returns true if the answer works,
// if nothing is checked, or if the user wants to keep the answer anyway.
func (c *conversation) tries(ctx context.Context, look func(*config.Config) []check.Finding) (bool, error) {
	if c.found == nil {
		return true, nil
	}
	conf, err := Parse(c.opener, *c.Setup)
	if err != nil {
		return false, err
	}
	bad := false
	for _, f := range look(conf) {
		mark := "ok"
		if !f.OK {
			bad, mark = true, "FAIL"
		}
		fmt.Fprintf(c.out, "  %s  %s: %s\n", mark, f.Part, render.Printable(f.Detail, false))
		if f.Hint != "" {
			if err := render.Hint(c.out, "    ", f.Hint, c.opener.File); err != nil {
				return false, err
			}
		}
	}
	if !bad || ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	return c.Yes(ctx, "keep it anyway?")
}

func (c *conversation) destination(ctx context.Context) error {
	preset := c.DefaultTo
	for asked := false; ; asked = true {
		if len(c.To) == 0 || asked {
			to, err := c.line(ctx, "destination of the tables: duckdb:FILE, sqlite:FILE, parquet:FOLDER, postgres://… or mysql://…", preset)
			if err != nil {
				return err
			}
			delete(c.Typed, DatabaseVariable) // the answer that this one replaces
			if hasPassword(to) {
				c.Typed[DatabaseVariable], to = to, "${"+DatabaseVariable+"}"
			} else {
				preset = to
			}
			c.To = []string{to}
		}
		faults, err := c.faults()
		if err != nil {
			return err
		}
		for _, f := range faults {
			fmt.Fprintln(c.out, "  "+f.Message)
		}
		if len(faults) > 0 {
			continue
		}
		good, err := c.tries(ctx, func(conf *config.Config) []check.Finding {
			var all []check.Finding
			for _, d := range conf.Destinations {
				all = append(all, check.Destination(ctx, c.opener, conf, d)...)
			}
			return all
		})
		if good || err != nil {
			return err
		}
	}
}

func (c *conversation) choice(ctx context.Context) error {
	text := strings.Join(c.Streams, ",")
	for {
		if len(c.Streams) == 0 {
			var err error
			if text, err = c.line(ctx, "which streams, such as * or crm.*, sales.*, !hr.payslips", "*"); err != nil {
				return err
			}
		}
		c.Streams = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
		faults, err := c.faults()
		if err != nil || len(faults) == 0 {
			return err
		}
		for _, f := range faults {
			fmt.Fprintln(c.out, "  "+f.Message)
		}
		c.Streams = nil
	}
}

func (c *conversation) schedule(ctx context.Context) error {
	if err := c.ask(ctx, "schedule for `penstock serve`, in cron format: 0 2 * * * is every night at two; empty means no schedule", "", &c.Cron); err != nil || c.Cron == "" {
		return err
	}
	return c.ask(ctx, "time zone", "UTC", &c.Zone)
}
