package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract/wire"
)

func (a *app) logoutCmd() *cobra.Command {
	var local bool
	cmd := &cobra.Command{
		Use:   "logout [SOURCE [SURFACE]]",
		Short: "end a sign-in at the server, and remove its tokens",
		Long: `Ends what penstock login has brought: the server is asked to revoke the refresh token and
the access token (RFC 7009), and then they are removed from the state. If the server does
not confirm, they stay, so that you can try again.

With --local the server is not asked: tokens that it gave out stay good until they end.
A source whose auth is login is signed out of locally; the next run signs in again.`,
		Example: `  penstock logout
  penstock logout main v2`,
		Args: cobra.MaximumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.load()
			if err != nil {
				return err
			}
			all, err := a.signInsOf(c, args)
			if err != nil {
				return err
			}
			if len(all) > 1 {
				return usage("`penstock logout SOURCE SURFACE` with one of: "+signInNames(all), "sign out of which? %s has %d", c.File, len(all))
			}
			return a.logout(cmd.Context(), c, all[0], local)
		},
	}
	cmd.Flags().BoolVar(&local, "local", false, "remove the tokens only; do not ask the server to revoke them")
	return cmd
}

// logout signs out of one surface.
func (a *app) logout(ctx context.Context, at *config.Config, s config.SignIn, local bool) error {
	name := s.Name + " " + string(s.Surface)
	client, done, err := a.signInClient(ctx, at, s)
	if err != nil {
		return err
	}
	out, err := client.SignOut(ctx, local)
	if err = errors.Join(err, client.Close(), done()); err != nil {
		hint := "the tokens are kept; try again, or remove them only: `penstock logout --local`"
		return hinted(fmt.Errorf("logout %s: %w", name, err), hint)
	}
	st, err := s.Credential.(wire.Keeper).Standing()
	if err != nil {
		return err
	}
	says := "signed out of %s; the server has revoked the tokens, and they are removed from %s\n"
	switch {
	case out.Nothing:
		says = "nobody is signed in to %s; nothing is kept in %s\n"
	case out.AccessLasts:
		says = "signed out of %s; the server has revoked the refresh token, and the tokens are removed from %s; it does not revoke access tokens: the last one is good until it ends\n"
	case !out.Revoked:
		says = "the tokens of %s are removed from %s; the server was not asked to revoke them\n"
	}
	_, err = fmt.Fprintf(a.out, says, name, st.Where)
	return err
}
