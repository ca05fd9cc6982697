package setup

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// Prompt prompts a person at a terminal. It does not use stdout, which is for data.
type Prompt struct {
	in  *bufio.Reader
	fd  int
	out io.Writer
}

// NewPrompt returns nil if it cannot prompt: stdin is not a terminal, or the prompt would not be visible.
func NewPrompt(stderr io.Writer) *Prompt {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	// Prefer the terminal itself: stderr may be redirected.
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		return &Prompt{in: bufio.NewReader(tty), fd: int(tty.Fd()), out: tty}
	}
	if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &Prompt{in: bufio.NewReader(os.Stdin), fd: int(os.Stdin.Fd()), out: f}
	}
	return nil
}

// errNoAnswer ends a prompt at the end of input.
var errNoAnswer = errors.New("no answer")

// line prompts for a line. If the answer is empty, line returns the parameter preset.
func (p *Prompt) line(ctx context.Context, question, preset string) (string, error) {
	if preset != "" {
		question += " [" + preset + "]"
	}
	fmt.Fprintf(p.out, "%s: ", question)
	text, err := p.await(ctx, func() (string, error) { return p.in.ReadString('\n') })
	if text = strings.TrimSpace(text); text == "" {
		text = preset
	}
	return text, err
}

// secret prompts for a line without echo. // Invariant 5
func (p *Prompt) secret(ctx context.Context, question string) (string, error) {
	fmt.Fprintf(p.out, "%s (not shown): ", question)
	before, err := term.GetState(p.fd)
	if err != nil {
		return "", fmt.Errorf("prompt for a secret: %w", err)
	}
	text, err := p.await(ctx, func() (string, error) {
		secret, err := term.ReadPassword(p.fd)
		return string(secret), err
	})
	// After an interrupted prompt, the echo is still off.
	err = errors.Join(err, term.Restore(p.fd, before))
	fmt.Fprintln(p.out)
	return strings.TrimSpace(text), err
}

// Yes prompts for yes or no. Anything but yes or y is no, also the end of input.
func (p *Prompt) Yes(ctx context.Context, question string) (bool, error) {
	text, err := p.line(ctx, question+" (yes/no)", "no")
	if errors.Is(err, errNoAnswer) {
		return false, nil
	}
	return strings.EqualFold(text, "yes") || strings.EqualFold(text, "y"), err
}

// await waits for an answer or the end of ctx. A read from a terminal cannot be canceled, so its goroutine stays
// until the process ends.
func (p *Prompt) await(ctx context.Context, read func() (string, error)) (string, error) {
	type answered struct {
		text string
		err  error
	}
	got := make(chan answered, 1)
	go func() {
		text, err := read()
		if errors.Is(err, io.EOF) {
			err = errNoAnswer
		}
		got <- answered{text, err}
	}()
	select {
	case a := <-got:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
