package objects

import (
	"bytes"
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Vendor gives out temporary keys for parts of an S3 bucket. Its methods may be called concurrently.
type Vendor interface {
	// Location returns the beginning of the names of all objects for which the same keys are used as for the object key.
	Location(key string) (string, error)

	// Keys requests new keys for a location.
	Keys(ctx context.Context, location string) (Keys, error)
}

// Keys are temporary keys for the objects of a location. They never appear in an error or a log. // Invariant 5
type Keys struct {
	AccessKey, SecretKey, SessionToken string

	Until  time.Time // from this time on, new keys are requested; the keys expire later
	Region string    // "": unknown
	Path   bool      // the bucket is in the path of requests
}

// vendedS3 is a bucket of S3 to which a [Vendor] gives the keys. Each location has keys of its own.
type vendedS3 struct {
	bucket string
	o      Options

	mu        sync.Mutex
	locations map[string]*vendedLocation
}

type vendedLocation struct {
	mu sync.Mutex
	s3 *S3
}

func newVendedS3(bucket string, o Options) (*vendedS3, error) {
	if o.Transport == nil {
		t, err := minio.DefaultTransport(!strings.HasPrefix(o.Endpoint, "http://"))
		if err != nil {
			return nil, err
		}
		o.Transport = t // all locations share the connections
	}
	return &vendedS3{bucket: bucket, o: o, locations: map[string]*vendedLocation{}}, nil
}

// at returns the location that contains an object.
func (v *vendedS3) at(ctx context.Context, key string) (*vendedLocation, error) {
	name, err := v.o.Vendor.Location(key)
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	l := v.locations[name]
	if l == nil {
		l = &vendedLocation{}
		v.locations[name] = l
	}
	v.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.s3 != nil {
		return l, nil
	}
	first, err := v.o.Vendor.Keys(ctx, name)
	if err != nil {
		return nil, err
	}
	o := v.o
	o.Region, o.Path = cmp.Or(o.Region, first.Region), o.Path || first.Path
	keys := &vendedKeys{next: &first, request: func(ctx context.Context) (Keys, error) { return v.o.Vendor.Keys(ctx, name) }}
	o.Transport = &refusals{next: o.Transport, keys: keys}
	l.s3, err = openS3(v.bucket, o, credentials.New(keys))
	return l, err
}

// do calls f with the location of an object. If the store refuses the keys, and the library does not repeat the request,
// do calls f once more. The second call uses new keys: see [refusals].
func (v *vendedS3) do(ctx context.Context, key string, f func(*S3) error) error {
	l, err := v.at(ctx, key)
	if err != nil {
		return fmt.Errorf("get keys for s3://%s/%s: %w", v.bucket, key, err)
	}
	err = f(l.s3)
	if r, _ := errors.AsType[minio.ErrorResponse](err); slices.Contains(refused, r.Code) {
		return f(l.s3)
	}
	return err
}

// These are the codes of errors with which a store refuses keys, but would accept newer ones. After the codes in
// expired, the library repeats the request.
var (
	expired = []string{"ExpiredToken", "ExpiredTokenException"}
	refused = []string{"InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}
)

const refusalLength = 64 << 10 // greatest length of an error in bytes; longer ones are not understood. Invariant 6

// refusals finds out whether the store refuses the keys of a request. It does so for each request, because the library
// repeats some requests, and must do so with new keys.
type refusals struct {
	next http.RoundTripper
	keys *vendedKeys
}

// RoundTrip implements [http.RoundTripper].
func (t *refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(r)
	if err != nil || resp.StatusCode/100 != 4 {
		return resp, err
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, refusalLength)) // the library reads on, and gets the same error
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	var says struct{ Code string }
	if xml.Unmarshal(text, &says) == nil && (slices.Contains(expired, says.Code) || slices.Contains(refused, says.Code)) {
		t.keys.refuse(r)
	}
	return resp, nil
}

// Put implements [Bucket].
func (v *vendedS3) Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	return v.do(ctx, key, func(s *S3) error {
		if _, err := body.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return s.Put(ctx, key, body, size)
	})
}

// Create implements [Bucket].
func (v *vendedS3) Create(ctx context.Context, key string, text []byte) error {
	return v.do(ctx, key, func(s *S3) error { return s.Create(ctx, key, text) })
}

// Get implements [Bucket].
func (v *vendedS3) Get(ctx context.Context, key string, from, n int64) (text []byte, size int64, err error) {
	err = v.do(ctx, key, func(s *S3) (err error) {
		text, size, err = s.Get(ctx, key, from, n)
		return err
	})
	return text, size, err
}

// List implements [Bucket]. All objects that begin with prefix must be in the same location.
func (v *vendedS3) List(ctx context.Context, prefix string, pageSize int, visit func(key string, size int64) bool) error {
	return v.do(ctx, prefix, func(s *S3) error { return s.List(ctx, prefix, pageSize, visit) })
}

// Folders implements [Bucket]. The prefix must be in a location.
func (v *vendedS3) Folders(ctx context.Context, prefix string) (out []string, err error) {
	err = v.do(ctx, prefix, func(s *S3) (err error) {
		out, err = s.Folders(ctx, prefix)
		return err
	})
	return out, err
}

// Remove implements [Bucket].
func (v *vendedS3) Remove(ctx context.Context, key string) error {
	return v.do(ctx, key, func(s *S3) error { return s.Remove(ctx, key) })
}

// Uploads returns nothing, because keys for a location do not include the right to list the uploads of a bucket.
func (v *vendedS3) Uploads(context.Context, string) ([]Upload, error) { return nil, nil }

// AbortUpload implements [Bucket].
func (v *vendedS3) AbortUpload(ctx context.Context, p Upload) error {
	return v.do(ctx, p.Key, func(s *S3) error { return s.AbortUpload(ctx, p) })
}

// vendedKeys implements [credentials.Provider]. The library does not call its methods concurrently, but calls of refuse
// may be concurrent.
type vendedKeys struct {
	request func(context.Context) (Keys, error)
	next    *Keys // keys that were already requested

	mu      sync.Mutex
	current Keys
}

// RetrieveWithCredContext implements [credentials.Provider].
func (k *vendedKeys) RetrieveWithCredContext(c *credentials.CredContext) (credentials.Value, error) {
	ctx := context.Background()
	if c != nil && c.Context != nil {
		ctx = c.Context
	}
	now := k.next
	if k.next = nil; now == nil {
		ctx, cancel := limited(ctx, 0)
		defer cancel()
		fresh, err := k.request(ctx)
		if err != nil {
			return credentials.Value{}, err
		}
		now = &fresh
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current = *now
	return credentials.Value{AccessKeyID: now.AccessKey, SecretAccessKey: now.SecretKey, SessionToken: now.SessionToken, SignerType: credentials.SignatureV4}, nil
}

// Retrieve implements [credentials.Provider].
func (k *vendedKeys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// IsExpired implements [credentials.Provider].
func (k *vendedKeys) IsExpired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !time.Now().Before(k.current.Until)
}

// refuse ends the use of the keys of a request that the store has refused. It does nothing if a concurrent request has
// already got newer keys.
func (k *vendedKeys) refuse(r *http.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Header.Get("X-Amz-Security-Token") == k.current.SessionToken && strings.Contains(r.Header.Get("Authorization"), "Credential="+k.current.AccessKey+"/") {
		k.current.Until = time.Time{}
	}
}
