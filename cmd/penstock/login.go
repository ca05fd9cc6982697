package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// loginFlags has the flags of login.
type loginFlags struct {
	noBrowser bool
	paste     bool
	device    bool
	status    bool
}

func loginCmd(a *app) *cobra.Command {
	var f loginFlags
	cmd := &cobra.Command{
		Use:   "login [SOURCE [SURFACE]]",
		Short: "sign in to a source in the browser, and store the tokens",
		Long: `Opens a browser and signs in to a source that has auth: {oauth: …}, by authorization code
with PKCE. It requests the scopes in the configuration. If there are none, it requests only
the scopes that the pipelines' streams need. The tokens are stored with the state or in the
keyring. Later reads of the source renew them.

On a machine without a browser, use --device: it shows a code to enter in a browser on
another machine, if the server supports device codes. Or use --paste: open the printed
address on any machine and sign in. Then copy the address of the last page from the
browser, even if the page cannot be shown, and paste it here.

If the source has auth: {login: …}, the command signs in at once with e-mail address and
password. A run signs in only if it has no valid token, because each sign-in revokes all
other tokens of the user.`,
		Example: `  penstock login
  penstock login main v2 --device
  penstock login --status`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.paste && f.device {
				return failure.Usage("use only one of the two flags", "--paste and --device contradict each other")
			}
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			all, err := signInsOf(a, c, args)
			if err != nil {
				return err
			}
			if f.status {
				return loginStatus(a, all)
			}
			if len(all) > 1 {
				return failure.Usage("`penstock login SOURCE SURFACE` with one of: "+signInNames(all), "name the source and surface to sign in to: %s has %d", c.File, len(all))
			}
			return signInTo(cmd.Context(), a, c, all[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.noBrowser, "no-browser", false, "only print the address, to be opened in a browser on this machine")
	cmd.Flags().BoolVar(&f.paste, "paste", false, "sign in with a browser on another machine, and paste the address of the last page that it shows")
	cmd.Flags().BoolVar(&f.device, "device", false, "show a code to enter in a browser on another machine")
	cmd.Flags().BoolVar(&f.status, "status", false, "print the stored sign-ins, and do not sign in")
	return cmd
}

// signInsOf returns the sign-ins of the source and surface that the arguments name. Without arguments, it returns all
// sign-ins.
func signInsOf(a *app, c *config.Config, args []string) ([]config.SignIn, error) {
	if err := knownSource(c, args); err != nil {
		return nil, err
	}
	var all []config.SignIn
	for _, s := range c.Sources {
		if len(args) > 0 && s.Name != args[0] {
			continue
		}
		some, err := a.open.SignIns(c, s.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(args) > 1 {
		if s := schemas.Surface(args[1]); s != schemas.SurfaceApp && s != schemas.SurfaceV2 {
			return nil, failure.Usage("", "no surface %q; want app or v2", args[1])
		}
		all = slices.DeleteFunc(all, func(s config.SignIn) bool { return string(s.Surface) != args[1] })
	}
	if len(all) == 0 {
		return nil, failure.Usage("API keys and tokens need no sign-in; `auth: {oauth: …}` and `app: {auth: {login: …}}` need one",
			"no credential in %s needs a sign-in", strings.Join(append([]string{c.File}, args...), ", "))
	}
	return all, nil
}

// knownSource returns an error if the first argument names no source of the configuration.
func knownSource(c *config.Config, args []string) error {
	if len(args) == 0 {
		return nil
	}
	_, err := open.Pick(c.File, "source", "", c.Sources, func(s config.Source) string { return s.Name }, args[0])
	return err
}

func signInNames(all []config.SignIn) string {
	var names []string
	for _, s := range all {
		names = append(names, s.Name+" "+string(s.Surface))
	}
	return strings.Join(names, ", ")
}

// signInTo signs in to one surface.
func signInTo(ctx context.Context, a *app, at *config.Config, s config.SignIn, f loginFlags) error {
	name := s.Name + " " + string(s.Surface)
	err := signInWith(ctx, a, at, s, f)
	if err != nil {
		return failure.Hinted(fmt.Errorf("login %s: %w", name, err), loginRemedy(err))
	}
	st, err := s.Credential.(wire.Keeper).State()
	if err != nil {
		return err
	}
	if len(st.MissingScopes) > 0 {
		a.log.Warn("the server did not grant all requested scopes", "source", name, "missing", strings.Join(st.MissingScopes, " "))
	}
	if st.NoRefresh {
		a.log.Warn("the server issued no refresh token", "source", name, "ends", endOf(st), "remedy", noRefreshRemedy)
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(statusOf(s, st))
	}
	_, err = fmt.Fprintf(a.out, "signed in to %s as %s; tokens stored in %s\n", name, st.Account, st.Where)
	return err
}

func signInWith(ctx context.Context, a *app, at *config.Config, s config.SignIn, f loginFlags) error {
	client, done, err := a.open.SignInClient(ctx, at, s)
	if err != nil {
		return err
	}
	return errors.Join(client.SignIn(ctx, signInBy(ctx, a, s, f)), client.Close(), done())
}

// signInBy returns the functions through which a sign-in communicates with the user.
func signInBy(ctx context.Context, a *app, s config.SignIn, f loginFlags) wire.SignInMethod {
	by := wire.SignInMethod{Show: func(address string) error { return showAddress(ctx, a, s, address, f) }}
	switch {
	case f.device:
		by.Device = func(c wire.DeviceCode) error { return showCode(a, c) }
	case f.paste:
		by.Paste = func(ctx context.Context) (string, error) { return readPasted(ctx, a) }
	}
	return by
}

// showAddress prints the server's sign-in address. It opens the address in a browser, unless --no-browser or --paste is
// set.
func showAddress(ctx context.Context, a *app, s config.SignIn, address string, f loginFlags) error {
	where := "a browser on this machine"
	if f.paste {
		where = "a browser on any machine"
	}
	fmt.Fprintf(a.err, "open this address in %s to sign in:\n\n%s\n\n", where, address)
	if st, err := s.Credential.(wire.Keeper).State(); err == nil && st.Redirect != "" {
		fmt.Fprintf(a.err, "redirect address to register with the server: %s\n", st.Redirect)
	}
	if f.noBrowser || f.paste {
		return nil
	}
	if err := openBrowser(ctx, address); err != nil {
		a.log.Debug("open browser", "error", err)
		fmt.Fprintln(a.err, render.Suggest("no browser on this machine? Use `penstock login --device`, or `penstock login --paste`.", a.open.File))
	}
	return nil
}

// showCode prints a device code and where to enter it.
func showCode(a *app, c wire.DeviceCode) error {
	fmt.Fprintf(a.err, "open %s in a browser on any machine, and enter the code %s\n", render.Printable(c.Address, false), render.Printable(c.Code, false))
	if c.Complete != "" {
		fmt.Fprintf(a.err, "or open this address, which contains the code: %s\n", render.Printable(c.Complete, false))
	}
	if !c.Expires.IsZero() {
		fmt.Fprintf(a.err, "the code is valid until %s\n", c.Expires.Local().Format(time.DateTime))
	}
	return nil
}

// readPasted reads a line from standard input.
func readPasted(ctx context.Context, a *app) (string, error) {
	fmt.Fprint(a.err, "after signing in, paste the address that the browser shows:\n")
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(io.LimitReader(os.Stdin, 64<<10)).ReadString('\n')
		line <- text
	}()
	select {
	case text := <-line:
		return text, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// noRefreshRemedy is the hint for a server that issues no refresh token.
const noRefreshRemedy = "allow the grant type refresh_token for this client at the server, or request it: add offline_access to scopes, or set authorize_params: {access_type: offline}"

func endOf(st wire.CredentialState) string {
	if st.Expires.IsZero() {
		return "at a time that the server decides"
	}
	return st.Expires.Local().Format(time.DateTime)
}

// openBrowser starts the desktop's browser and does not wait for it.
func openBrowser(ctx context.Context, address string) error {
	opener := map[string][]string{
		"darwin":  {"open"},
		"windows": {"rundll32", "url.dll,FileProtocolHandler"},
	}[runtime.GOOS]
	if opener == nil {
		opener = []string{"xdg-open"}
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), opener[0], append(opener[1:], address)...)
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// loginRemedy is the hint for a failed sign-in.
func loginRemedy(err error) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		switch e.Class {
		case wire.Transient, wire.Throttled:
			// Cause: the authorization server does not answer
			return "try again later; stored tokens were not changed"
		case wire.Refused:
			return render.SourceRemedy(e, "")
		}
	}
	// Cause: the authorization server refuses the sign-in
	return "check auth in the configuration, then run `penstock login` again"
}

// loginState is a stored sign-in in the form in which --json prints it.
type loginState struct {
	Source   string    `json:"source"`
	Surface  string    `json:"surface"`
	Account  string    `json:"account"`
	Where    string    `json:"kept_in"`
	SignedIn time.Time `json:"signed_in,omitzero"`
	Renewed  time.Time `json:"renewed,omitzero"`
	Expires  time.Time `json:"expires,omitzero"`
	Lacking  []string  `json:"lacking_scopes,omitempty"`
	Failing  time.Time `json:"failing_since,omitzero"`
	Refresh  bool      `json:"refresh_token"`
	Redirect string    `json:"redirect_uri,omitempty"`
	Trouble  string    `json:"trouble,omitempty"`
}

func statusOf(s config.SignIn, st wire.CredentialState) loginState {
	return loginState{s.Name, string(s.Surface), st.Account, st.Where, st.SignedIn, st.Renewed, st.Expires, st.MissingScopes, st.Failing, !st.SignedIn.IsZero() && !st.NoRefresh, st.Redirect, st.Trouble}
}

// loginStatus prints the stored sign-ins.
func loginStatus(a *app, all []config.SignIn) error {
	code := failure.ExitDone
	for _, s := range all {
		st, err := s.Credential.(wire.Keeper).State()
		if err != nil {
			return err
		}
		if st.Trouble != "" {
			code = failure.ExitFailed
		}
		if a.json {
			err = render.NewEncoder(a.out).Encode(statusOf(s, st))
		} else {
			_, err = fmt.Fprintf(a.out, "%s %s  %s: %s\n", s.Name, s.Surface, st.Account, render.Printable(render.SignIn(st), false))
		}
		if err != nil {
			return err
		}
	}
	return failure.Exit(code)
}
