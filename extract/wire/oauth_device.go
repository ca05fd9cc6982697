package wire

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/oauth2"
)

// DeviceCode is what a person needs to sign in from another device.
type DeviceCode struct {
	Address  string    // page to open
	Code     string    // code to enter there
	Complete string    // an address that contains the code; "" if the server sent none
	Expires  time.Time // zero if the server does not state it
}

const mostInterval = 60

// signInByDevice gets a grant with a device code (RFC 8628). x/oauth2 requests the token again and again until the
// code expires, and pauses longer if the server requests it.
func (o *OAuth) signInByDevice(ctx context.Context, s Session, show func(DeviceCode) error) error {
	conf, err := o.configSoon(ctx, s)
	if err != nil {
		return err
	}
	if conf.Endpoint.DeviceAuthURL, err = o.endpointOf(ctx, deviceEndpoint); err != nil {
		return err
	}
	if conf.Endpoint.DeviceAuthURL == "" {
		return o.misconfigured(errors.New("the server's metadata has no device_authorization_endpoint; set device_url, or sign in with --paste"))
	}
	conf.Scopes = o.scopes()
	code, err := o.askDevice(ctx, s, conf)
	if err != nil {
		return err
	}
	o.hold.addSecrets(Secret(code.DeviceCode))
	if err := show(DeviceCode{Address: code.VerificationURI, Code: code.UserCode, Complete: code.VerificationURIComplete, Expires: code.Expiry}); err != nil {
		return err
	}
	g, err := o.pollDevice(ctx, conf, code)
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	// The entry is not locked during the wait. A person takes minutes, and other processes may renew tokens meanwhile.
	_, err = o.hold.locked(ctx, func(_ context.Context, x *exchange) error { return x.keep(o.firstGrant(x, g, conf.Scopes)) })
	return err
}

func (o *OAuth) askDevice(ctx context.Context, s Session, conf oauth2.Config) (*oauth2.DeviceAuthResponse, error) {
	u, err := endpoint("device_url", conf.Endpoint.DeviceAuthURL)
	if err != nil {
		return nil, o.misconfigured(err)
	}
	c := o.client(u, false)
	c.Transport = authenticated{c.Transport, o.opts.ClientID, o.opts.ClientSecret, o.clientAuth()}
	var secret []oauth2.AuthCodeOption
	if o.opts.ClientSecret != "" && o.clientAuth() == ClientPost {
		secret = append(secret, oauth2.SetAuthURLParam("client_secret", o.opts.ClientSecret.Reveal()))
	}
	w := s.personWait()
	for n := 1; ; n++ {
		code, err := conf.DeviceAuth(context.WithValue(ctx, oauth2.HTTPClient, c), secret...)
		if err == nil {
			code.Interval = min(max(code.Interval, 0), mostInterval)
			return code, nil
		}
		fault := o.fault(u.Path, err)
		if !w.retrySoon(ctx, fault, n) {
			return nil, fmt.Errorf("sign in: %w", w.end(fault))
		}
	}
}

// pollDevice requests the token. If a request gets no answer, pollDevice repeats it, because only an answer uses up the
// code.
func (o *OAuth) pollDevice(ctx context.Context, conf oauth2.Config, code *oauth2.DeviceAuthResponse) (grant, error) {
	u, err := endpoint("token_url", conf.Endpoint.TokenURL)
	if err != nil {
		return grant{}, err
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.client(u, true))
	for {
		t, err := conf.DeviceAccessToken(ctx, code)
		if err == nil {
			return o.granted(t), nil
		}
		switch {
		case context.Cause(ctx) != nil:
			return grant{}, context.Cause(ctx)
		case !code.Expiry.IsZero() && !time.Now().Before(code.Expiry):
			return grant{}, errors.New("the code expired before it was entered; nothing was stored")
		}
		e := o.fault(u.Path, err)
		if !e.outage || missingEndpoint(err) {
			return grant{}, o.deviceRefusal(e)
		}
		code.Interval = min(mostInterval, max(5, code.Interval)*2) // RFC 8628, section 3.5, requires longer pauses after a connection timeout
	}
}

// missingEndpoint reports whether the server has no endpoint at the address. If so, the person who waits gets the error
// at once.
func missingEndpoint(err error) bool {
	r, ok := errors.AsType[*oauth2.RetrieveError](err)
	return ok && (r.Response.StatusCode == http.StatusNotFound || r.Response.StatusCode == http.StatusMethodNotAllowed)
}

func (o *OAuth) deviceRefusal(e *Error) error {
	switch e.code {
	case "access_denied":
		return errors.New("the server says access_denied: the request was refused on the other device")
	case "expired_token":
		return errors.New("the code expired before it was entered; nothing was stored")
	}
	return e
}

type authenticated struct {
	base   http.RoundTripper
	id     string
	secret Secret
	by     string
}

// RoundTrip implements [http.RoundTripper].
func (a authenticated) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.secret != "" && a.by == ClientBasic {
		r = r.Clone(r.Context())
		r.SetBasicAuth(queryEscaped(a.id), queryEscaped(a.secret.Reveal()))
	}
	return a.base.RoundTrip(r)
}
