package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/oauth2"
)

// SignInBy is how a person takes part in a sign-in. Show is needed for a credential that
// has a page to sign in on; at most one of Paste and Device is set.
type SignInBy struct {
	// Show brings the person to the server's page, and should return at once. The
	// address holds no secret but the one-time state of this sign-in.
	Show func(address string) error

	// Paste returns the address that the person's browser ended on. It is for a browser
	// on another machine; nil: penstock listens on a loopback address.
	Paste func(context.Context) (string, error)

	// Device shows a code that the person enters on any other device (RFC 8628).
	Device func(DeviceCode) error
}

// signIn gets a grant from a person: it has the person brought to the server's page,
// waits for the code that the browser brings back, exchanges it for tokens, and keeps
// them. It gives up after ten minutes.
func (o *OAuth) signIn(ctx context.Context, s Session, by SignInBy) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.opts.Patience, fmt.Errorf("nobody has signed in within %s", o.opts.Patience))
	defer cancel()
	if by.Device != nil {
		return o.signInByDevice(ctx, s, by.Device)
	}
	conf, err := o.configSoon(ctx, s)
	if err != nil {
		return err
	}
	if by.Paste == nil && !o.listens() {
		return fmt.Errorf("sign in: penstock cannot listen on %s; paste the address that the browser ends on (--paste)", o.opts.RedirectURI)
	}
	verifier, nonce := oauth2.GenerateVerifier(), rand.Text()
	o.hold.saw(Secret(verifier))
	back, err := o.awaits(by, nonce)
	if err != nil {
		return err
	}
	defer back.close()
	conf.RedirectURL, conf.Scopes = back.redirect.String(), o.scopes()
	if err := by.Show(conf.AuthCodeURL(nonce, o.authorizeParams(conf.Scopes, verifier)...)); err != nil {
		return err
	}
	code, err := back.code(ctx, by.Paste)
	back.close()
	if err != nil {
		return o.withRedirect(o.refused(err))
	}
	return o.redeem(ctx, s, conf, code, verifier)
}

// configSoon waits for an issuer in trouble.
func (o *OAuth) configSoon(ctx context.Context, s Session) (conf oauth2.Config, err error) {
	w := s.personWait()
	for n := 1; ; n++ {
		if conf, err = o.config(ctx); err == nil || !w.soon(ctx, err, n) {
			return conf, w.end(err)
		}
	}
}

// awaits makes what receives the browser's answer.
func (o *OAuth) awaits(by SignInBy, nonce string) (*callback, error) {
	issuer := o.namedIssuer()
	if by.Paste != nil {
		return &callback{nonce: nonce, issuer: issuer, redirect: o.redirect}, nil
	}
	return listen(o.redirect, nonce, issuer)
}

// namedIssuer is the issuer that an answer must name. It may leave the name out if the
// server's metadata does not say that answers have it.
func (o *OAuth) namedIssuer() issuerName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return issuerName{o.opts.Issuer, o.stated != nil && !o.stated.NamesIssuer}
}

// scopes are those to ask for: with offline_access, where the issuer says that this
// scope brings a refresh token.
func (o *OAuth) scopes() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := ScopeWords(o.opts.Scopes...)
	if o.stated != nil && slices.Contains(o.stated.Scopes, offlineAccess) && !slices.Contains(all, offlineAccess) {
		all = append(all, offlineAccess)
	}
	return all
}

// authorizeParams are the parameters of the sign-in page beside those of every sign-in.
// OpenID Connect gives offline_access only where the person is asked for consent.
func (o *OAuth) authorizeParams(scopes []string, verifier string) []oauth2.AuthCodeOption {
	all := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier)}
	if slices.Contains(scopes, offlineAccess) && o.opts.AuthorizeParams["prompt"] == "" {
		all = append(all, oauth2.SetAuthURLParam("prompt", "consent"))
	}
	for name, value := range o.opts.AuthorizeParams {
		all = append(all, oauth2.SetAuthURLParam(name, value))
	}
	return all
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
	w := s.personWait()
	for n := 1; ; n++ {
		_, err := o.hold.locked(ctx, func(ctx context.Context, x *exchange) error {
			began := func() note { return x.n.signingIn(x.h.stamp()) }
			return o.ask(ctx, s, x, conf, began, func(ctx context.Context) (*oauth2.Token, error) {
				return conf.Exchange(ctx, code.Reveal(), oauth2.VerifierOption(verifier))
			}, func(g grant) grant { return o.firstGrant(x, g, conf.Scopes) })
		})
		if err == nil {
			return nil
		}
		if e, ok := isOutage(err); ok && e.kept && w.soon(ctx, err, n) {
			continue
		}
		if e, ok := errors.AsType[*Error](err); ok && (e.code == "invalid_grant" || e.code == "invalid_request") {
			err = o.withRedirect(err)
		}
		return fmt.Errorf("sign in: %w", w.end(err))
	}
}

// firstGrant completes the grant of a sign-in. What renewals have shown of the server
// stays known.
func (o *OAuth) firstGrant(x *exchange, g grant, asked []string) grant {
	if g.scopes == nil {
		g.scopes = asked // RFC 6749 5.1: as asked for
	}
	g.rotation = x.g.rotation
	return g
}
