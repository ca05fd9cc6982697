package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

// metadata is what an issuer publishes about itself (RFC 8414, section 2).
type metadata struct {
	Issuer      string   `json:"issuer"`
	Authorize   string   `json:"authorization_endpoint"`
	Token       string   `json:"token_endpoint"`
	Revoke      string   `json:"revocation_endpoint"`
	Device      string   `json:"device_authorization_endpoint"`
	Scopes      []string `json:"scopes_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	NamesIssuer bool     `json:"authorization_response_iss_parameter_supported"`
}

func (m *metadata) onlyPost() bool {
	return slices.Contains(m.AuthMethods, "client_secret_post") && !slices.Contains(m.AuthMethods, "client_secret_basic")
}

type endpointKind struct {
	key          string
	name         string
	fromOptions  func(*OAuthOptions) string
	fromMetadata func(*metadata) string
}

var (
	authorizeEndpoint = endpointKind{"authorize_url", "authorization_endpoint", func(o *OAuthOptions) string { return o.AuthorizeURL }, func(m *metadata) string { return m.Authorize }}
	tokenEndpoint     = endpointKind{"token_url", "token_endpoint", func(o *OAuthOptions) string { return o.TokenURL }, func(m *metadata) string { return m.Token }}
	revokeEndpoint    = endpointKind{"revoke_url", "revocation_endpoint", func(o *OAuthOptions) string { return o.RevokeURL }, func(m *metadata) string { return m.Revoke }}
	deviceEndpoint    = endpointKind{"device_url", "device_authorization_endpoint", func(o *OAuthOptions) string { return o.DeviceURL }, func(m *metadata) string { return m.Device }}
)

// endpointOf returns the configured address, or else the address in the issuer's metadata. If the address in the
// metadata has another origin than the issuer, a user must configure the address: metadata must not decide to which
// hosts penstock sends secrets. // Invariant 10
func (o *OAuth) endpointOf(ctx context.Context, k endpointKind) (string, error) {
	if own := k.fromOptions(&o.opts); own != "" || o.opts.Issuer == "" {
		return own, nil
	}
	needed := k.key == authorizeEndpoint.key || k.key == tokenEndpoint.key
	m, err := o.discover(ctx)
	if e, ok := errors.AsType[*Error](err); ok && e.Class == Missing && !needed {
		return "", nil // metadata is optional
	}
	if err != nil {
		return "", err
	}
	raw := k.fromMetadata(m)
	if raw == "" {
		if needed {
			return "", o.misconfigured(fmt.Errorf("the metadata of issuer %s has no %s; set %s", o.opts.Issuer, k.name, k.key))
		}
		return "", nil
	}
	u, err := endpoint(k.key, raw)
	if err != nil {
		return "", o.misconfigured(fmt.Errorf("the %s of the issuer: %w", k.name, err))
	}
	issuer, err := url.Parse(o.opts.Issuer)
	if err != nil || u.Scheme != issuer.Scheme || hostPort(u) != hostPort(issuer) {
		return "", o.misconfigured(fmt.Errorf("the issuer %s has its %s at another host, %s://%s; to allow that host, set %s: %q", o.opts.Issuer, k.name, u.Scheme, u.Host, k.key, raw))
	}
	return raw, nil
}

func (o *OAuth) discover(ctx context.Context) (*metadata, error) {
	o.mu.Lock()
	m := o.issuerMetadata
	o.mu.Unlock()
	if m != nil {
		return m, nil
	}
	issuer, err := endpoint("issuer", o.opts.Issuer)
	if err != nil {
		return nil, o.misconfigured(err)
	}
	// Two addresses for metadata are usual, and a server may use only one of them. If both fail, the more useful of the
	// two errors is returned.
	var worst *Error
	for _, at := range wellKnown(issuer) {
		m, fault := o.readMetadata(ctx, at)
		if fault == nil {
			o.mu.Lock()
			o.issuerMetadata = m
			o.mu.Unlock()
			return m, nil
		}
		if worst == nil || worst.Class == Missing {
			worst = fault
		}
	}
	return nil, worst
}

func wellKnown(issuer *url.URL) []*url.URL {
	oidc, oauth := *issuer, *issuer
	path := strings.TrimSuffix(issuer.Path, "/")
	oidc.Path, oauth.Path = path+"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"+path
	return []*url.URL{&oidc, &oauth}
}

func (o *OAuth) readMetadata(ctx context.Context, at *url.URL) (*metadata, *Error) {
	e := &Error{Method: http.MethodGet, Path: at.Path, Attempts: 1, unchanged: true}
	fail := func(class Class, words string) (*metadata, *Error) {
		e.Class, e.outage = class, class == Transient
		e.Message = o.redact.excerpt(oneLine("read the metadata of the issuer at "+at.Path+": "+words), 256)
		return nil, e
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return fail(Refused, err.Error())
	}
	r.Header.Set("Accept", "application/json")
	resp, err := o.client(at, false).Do(r)
	if err != nil {
		class, err := unanswered(err)
		return fail(class, err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTokenAnswer))
	e.retryAfter, _ = budget.RetryAfter(resp.Header)
	var m metadata
	switch status := resp.StatusCode; {
	case err != nil:
		return fail(Transient, err.Error())
	case status == http.StatusTooManyRequests, status >= 500, status == http.StatusRequestTimeout:
		return fail(Transient, fmt.Sprintf("%d %s", status, statusText(status)))
	case status != http.StatusOK:
		return fail(Missing, fmt.Sprintf("%d %s", status, statusText(status)))
	case json.Unmarshal(body, &m) != nil:
		return fail(Missing, "the answer is not JSON")
	case m.Issuer != o.opts.Issuer:
		return fail(Refused, fmt.Sprintf("it is the metadata of issuer %q, and the configuration says %q; they must be equal", m.Issuer, o.opts.Issuer))
	}
	return &m, nil
}

func (o *OAuth) misconfigured(err error) *Error {
	return &Error{Class: Refused, Message: o.redact.excerpt(oneLine("sign in: "+err.Error()), 512), Err: &cause{text: err.Error(), err: err}, unchanged: true}
}
