package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/oauth2"
)

// SignInMethod says how a person takes part in a sign-in. An [OAuth] credential needs Show or Device. At most one of
// Paste and Device may be set.
type SignInMethod struct {
	// Show opens the server's page for the person, and returns at once. The address holds no secret except the
	// one-time state of this sign-in.
	Show func(address string) error

	// Paste returns the last address in the person's browser, if the browser runs on another machine. If Paste is
	// nil, penstock listens on a loopback address.
	Paste func(context.Context) (string, error)

	// Device shows a code that the person enters on another device (RFC 8628).
	Device func(DeviceCode) error
}

func (o *OAuth) signIn(ctx context.Context, s Session, by SignInMethod) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.opts.Patience, fmt.Errorf("no sign-in within %s", o.opts.Patience))
	defer cancel()
	if by.Device != nil {
		return o.signInByDevice(ctx, s, by.Device)
	}
	conf, err := o.configSoon(ctx, s)
	if err != nil {
		return err
	}
	if by.Paste == nil && !o.listens() {
		return fmt.Errorf("sign in: penstock cannot listen on %s; use --paste, and paste the last address in the browser", o.opts.RedirectURI)
	}
	verifier, nonce := oauth2.GenerateVerifier(), rand.Text()
	o.hold.addSecrets(Secret(verifier))
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

func (o *OAuth) configSoon(ctx context.Context, s Session) (conf oauth2.Config, err error) {
	w := s.personWait()
	for n := 1; ; n++ {
		if conf, err = o.config(ctx); err == nil || !w.retrySoon(ctx, err, n) {
			return conf, w.end(err)
		}
	}
}

func (o *OAuth) awaits(by SignInMethod, nonce string) (*callback, error) {
	issuer := o.namedIssuer()
	if by.Paste != nil {
		return &callback{nonce: nonce, issuer: issuer, redirect: o.redirect}, nil
	}
	return listen(o.redirect, nonce, issuer)
}

// namedIssuer returns the issuer that an answer must name. An answer may omit the name only if the issuer has metadata,
// and the metadata does not promise that answers name the issuer.
func (o *OAuth) namedIssuer() issuerName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return issuerName{o.opts.Issuer, o.issuerMetadata != nil && !o.issuerMetadata.NamesIssuer}
}

// scopes returns the scopes to request. It adds offline_access if the issuer supports that, to get a refresh token.
func (o *OAuth) scopes() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := ScopeWords(o.opts.Scopes...)
	if o.issuerMetadata != nil && slices.Contains(o.issuerMetadata.Scopes, offlineAccess) && !slices.Contains(all, offlineAccess) {
		all = append(all, offlineAccess)
	}
	return all
}

// authorizeParams returns the parameters of the sign-in page. If offline_access is requested, it adds prompt=consent,
// because OpenID Connect grants this scope only with that parameter.
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

func (o *OAuth) refused(err error) error {
	if d, ok := errors.AsType[*denied](err); ok {
		o.redact.Add(o.hold.secrets()...)
		return fmt.Errorf("sign in: %s", o.redact.excerpt(oneLine(d.words), 256))
	}
	return fmt.Errorf("sign in: %w", err)
}

func (o *OAuth) redeem(ctx context.Context, s Session, conf oauth2.Config, code Secret, verifier string) error {
	o.hold.addSecrets(code)
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
		if e, ok := isOutage(err); ok && e.unchanged && w.retrySoon(ctx, err, n) {
			continue
		}
		if e, ok := errors.AsType[*Error](err); ok && (e.code == "invalid_grant" || e.code == "invalid_request") {
			err = o.withRedirect(err)
		}
		return fmt.Errorf("sign in: %w", w.end(err))
	}
}

// firstGrant completes the grant of a sign-in. It keeps what earlier renewals have shown about rotation.
func (o *OAuth) firstGrant(x *exchange, g grant, asked []string) grant {
	if g.scopes == nil {
		g.scopes = asked // no list of scopes means that the requested scopes were granted (RFC 6749, section 5.1)
	}
	g.rotation = x.g.rotation
	return g
}
