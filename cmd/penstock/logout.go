package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/extract/wire"
)

func logoutCmd(a *app) *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:   "logout [SOURCE [SURFACE]]",
		Short: "revoke a sign-in at the server, and remove its tokens",
		Long: `Ends a sign-in of penstock login. It asks the server to revoke the refresh token and the
access token (RFC 7009), and then removes both from the state. If the server does not
confirm, the tokens stay, so that you can try again.

With --local no request is sent, and the tokens stay valid until they expire. For a source
with auth: {login: …}, the tokens are only removed, and the next run signs in again.`,
		Example: `  penstock logout
  penstock logout main v2`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			all, err := signInsOf(a, c, args)
			if err != nil {
				return err
			}
			if len(all) > 1 {
				return failure.Usage("`penstock logout SOURCE SURFACE` with one of: "+signInNames(all), "name the source and surface to sign out of: %s has %d sign-ins", c.File, len(all))
			}
			return signOutOf(cmd.Context(), a, c, all[0], local)
		},
	}
	cmd.Flags().BoolVar(&local, "local", false, "only remove the tokens; do not ask the server to revoke them")
	return cmd
}

// signOutOf signs out of one surface.
func signOutOf(ctx context.Context, a *app, at *config.Config, s config.SignIn, local bool) error {
	name := s.Name + " " + string(s.Surface)
	client, done, err := a.open.SignInClient(ctx, at, s)
	if err != nil {
		return err
	}
	out, err := client.SignOut(ctx, local)
	if err = errors.Join(err, client.Close(), done()); err != nil {
		hint := "the tokens were not removed; try again, or only remove them with `penstock logout --local`"
		return failure.Hinted(fmt.Errorf("logout %s: %w", name, err), hint)
	}
	st, err := s.Credential.(wire.Keeper).State()
	if err != nil {
		return err
	}
	says := "signed out of %s; the server has revoked the tokens, and they were removed from %s\n"
	switch {
	case out.Nothing:
		says = "not signed in to %s; no tokens in %s\n"
	case out.AccessLasts:
		says = "signed out of %s; the server has revoked the refresh token, and the tokens were removed from %s; the server does not revoke access tokens, so the last one stays valid until it expires\n"
	case !out.Revoked:
		says = "removed the tokens of %s from %s; the server was not asked to revoke them\n"
	}
	_, err = fmt.Fprintf(a.out, says, name, st.Where)
	return err
}
