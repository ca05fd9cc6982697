package signal

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"

	"github.com/penstock-data/penstock/extract/wire"
)

// Service returns the name of the service in a shoutrrr URL.
func Service(u wire.Secret) string {
	service, _, _ := strings.Cut(u.Reveal(), ":")
	return strings.ToLower(service)
}

// CheckTarget checks the form of a shoutrrr URL. It sends nothing. The URL is a secret, so the error contains at
// most the name of the service.
func CheckTarget(u wire.Secret) error {
	service := Service(u)
	_, rest, ok := strings.Cut(u.Reveal(), ":")
	base, _, _ := strings.Cut(service, "+")
	switch _, err := (&router.ServiceRouter{}).NewService(base); {
	case !ok || !strings.HasPrefix(rest, "//"):
		return errors.New("not a URL; use, for example, slack://…, smtp://… or generic+https://host/path")
	case base == "logger":
		return errors.New("the service logger sends no message")
	case err != nil:
		return fmt.Errorf("unknown service %q", base)
	}
	if _, err := url.Parse(u.Reveal()); err != nil {
		return fmt.Errorf("%s: not a URL", service)
	}
	if base == "matrix" {
		return nil // for matrix, the check below would sign in to the service
	}
	if _, err := (&router.ServiceRouter{}).Locate(u.Reveal()); err != nil {
		return fmt.Errorf("%s: the URL does not have the form that the service requires", service)
	}
	return nil
}

var errSlow = fmt.Errorf("no response within %s", sendTimeout)

func deliver(u wire.Secret, text string) error {
	sent := make(chan error, 1)
	go func() {
		service, err := (&router.ServiceRouter{}).Locate(u.Reveal())
		if err == nil {
			err = service.Send(text, &types.Params{})
		}
		sent <- err
	}()
	timeout := time.NewTimer(sendTimeout)
	defer timeout.Stop()
	select {
	case err := <-sent:
		if err != nil {
			return concealed(err, u)
		}
		return nil
	case <-timeout.C:
		return errSlow
	}
}

// concealed removes every part of the URL from an error. Services quote the URL in errors, and each service has
// its secret in a different part of the URL. // Invariant 5
func concealed(err error, u wire.Secret) error {
	secrets := []wire.Secret{u}
	if p, bad := url.Parse(u.Reveal()); bad == nil {
		password, _ := p.User.Password()
		secrets = append(secrets, wire.Secret(p.User.Username()), wire.Secret(password), wire.Secret(p.Host))
		for _, part := range strings.FieldsFunc(p.Path+"/"+p.Fragment, func(r rune) bool { return r == '/' || r == ':' }) {
			secrets = append(secrets, wire.Secret(part))
		}
		for _, values := range p.Query() {
			for _, v := range values {
				secrets = append(secrets, wire.Secret(v))
			}
		}
	}
	return errors.New(wire.NewRedactor(secrets...).Redact(err.Error()))
}
