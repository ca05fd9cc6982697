package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/oauth2"
)

// signIn asks a person for a grant: it listens on a loopback address, has
// show bring the person to the server's page, waits for the browser to come
// back, and exchanges the code that it brings for tokens, which it keeps. It
// gives up after ten minutes. show gets an address that holds no secret but the
// one-time state of this sign-in, and should return at once.
func (o *OAuth) signIn(ctx context.Context, s Session, show func(address string) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.patience, fmt.Errorf("nobody has signed in within %s", o.patience))
	defer cancel()
	verifier, nonce := oauth2.GenerateVerifier(), rand.Text()
	o.hold.saw(Secret(verifier))
	back, err := listen(o.port, nonce, o.issuer)
	if err != nil {
		return err
	}
	defer back.close()
	conf := o.conf
	conf.RedirectURL = back.address()
	if err := show(conf.AuthCodeURL(nonce, oauth2.S256ChallengeOption(verifier))); err != nil {
		return err
	}
	code, err := back.wait(ctx)
	back.close()
	if err != nil {
		return o.refused(err)
	}
	return o.redeem(ctx, s, conf, code, verifier)
}

// refused is why the browser has brought no code, in the server's words.
func (o *OAuth) refused(err error) error {
	if d, ok := errors.AsType[*denied](err); ok {
		o.redact.Add(o.hold.secrets()...)
		return fmt.Errorf("sign in: %s", o.redact.excerpt(oneLine(d.words), 256))
	}
	return fmt.Errorf("sign in: %w", err)
}

// redeem exchanges a code for tokens and keeps them.
func (o *OAuth) redeem(ctx context.Context, s Session, conf oauth2.Config, code Secret, verifier string) error {
	o.hold.saw(code)
	_, err := o.hold.locked(ctx, func(ctx context.Context, x *exchange) error {
		return x.call(ctx, x.n.signingIn(x.h.stamp()), func(ctx context.Context) (grant, error) {
			g, err := o.ask(ctx, s, func() (*oauth2.Token, error) {
				return conf.Exchange(o.client(ctx), code.Reveal(), oauth2.VerifierOption(verifier))
			})
			if g.scopes == nil {
				g.scopes = conf.Scopes // RFC 6749 5.1: as asked for
			}
			return g, err
		})
	})
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	return nil
}
