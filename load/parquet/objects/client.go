package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
)

// storeClient sends requests to a store and retries them. It is safe for concurrent use.
type storeClient struct {
	client *http.Client
	sign   func(*http.Request) error
	name   string // name of the bucket, for messages: gs://name
	fault  func(*response) (code, message string)
}

type request struct {
	method string
	url    string
	header map[string]string
	body   io.ReadSeeker
	size   int64
	get    int64 // expected bytes of the answer, if known
	pass   []int // statuses besides 2xx that are not errors
}

type response struct {
	status int
	header http.Header
	body   []byte
}

func newStoreClient(name string, t http.RoundTripper) *storeClient {
	if t == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost, own.DisableCompression = 2*Removals, true
		t = own
	}
	return &storeClient{name: name, client: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // never send credentials to another host
	}}
}

// do sends a request. A status other than 2xx is an error if a.pass does not list it. The error for a 404 wraps
// fs.ErrNotExist. The parameters doing and key are for messages.
func (e *storeClient) do(ctx context.Context, doing, key string, a request) (*response, error) {
	ctx, cancel := limited(ctx, a.size+a.get)
	defer cancel()
	got, err := e.retry(ctx, a)
	if err == nil && got.status/100 != 2 && !slices.Contains(a.pass, got.status) {
		code, message := e.fault(got)
		err = fmt.Errorf("%s %s (%d)", code, message, got.status)
		if got.status == http.StatusNotFound {
			err = fmt.Errorf("%s %s: %w", code, message, fs.ErrNotExist)
		}
	}
	if err != nil {
		return got, fmt.Errorf("%s %s/%s: %w", doing, e.name, key, err)
	}
	return got, nil
}

func (e *storeClient) retry(ctx context.Context, a request) (*response, error) {
	for tries := storeRetry.Begin(); ; {
		got, err := e.attempt(ctx, a)
		if ctx.Err() != nil || err == nil && !transient(got.status) {
			return got, err
		}
		if tries.Again(ctx) {
			continue
		}
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
		return got, err
	}
}

func transient(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func (e *storeClient) attempt(ctx context.Context, a request) (*response, error) {
	var body io.Reader
	if a.body != nil {
		if _, err := a.body.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		body = io.LimitReader(a.body, a.size)
	}
	r, err := http.NewRequestWithContext(ctx, a.method, a.url, body)
	if err != nil {
		return nil, withoutURL(err)
	}
	r.ContentLength = a.size
	for name, value := range a.header {
		r.Header.Set(name, value)
	}
	if err := e.sign(r); err != nil {
		return nil, err
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return &response{status: resp.StatusCode, header: resp.Header, body: text}, err
}

// withoutURL removes the URL from an error, because the URL may contain a signature. // Invariant 5
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
