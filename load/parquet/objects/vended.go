package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	mu   sync.Mutex
	s3   *S3
	keys *credentials.Credentials
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
	l.keys = credentials.New(&vendedKeys{next: &first, request: func(ctx context.Context) (Keys, error) { return v.o.Vendor.Keys(ctx, name) }})
	l.s3, err = openS3(v.bucket, o, l.keys)
	return l, err
}

// do calls f with the location of an object. If the store refuses the keys because they are too old, do requests new
// keys, and calls f once more.
func (v *vendedS3) do(ctx context.Context, key string, f func(*S3) error) error {
	l, err := v.at(ctx, key)
	if err != nil {
		return fmt.Errorf("get keys for s3://%s/%s: %w", v.bucket, key, err)
	}
	if err = f(l.s3); !outdated(err) {
		return err
	}
	l.keys.Expire()
	return f(l.s3)
}

// outdated reports whether the store has refused the keys, and would accept newer ones.
func outdated(err error) bool {
	r, _ := errors.AsType[minio.ErrorResponse](err)
	return slices.Contains([]string{"ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId"}, r.Code)
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

// vendedKeys implements [credentials.Provider]. The library does not call its methods concurrently.
type vendedKeys struct {
	request func(context.Context) (Keys, error)
	next    *Keys // keys that were already requested
	until   time.Time
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
	k.until = now.Until
	return credentials.Value{AccessKeyID: now.AccessKey, SecretAccessKey: now.SecretKey, SessionToken: now.SessionToken, SignerType: credentials.SignatureV4}, nil
}

// Retrieve implements [credentials.Provider].
func (k *vendedKeys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// IsExpired implements [credentials.Provider].
func (k *vendedKeys) IsExpired() bool { return !time.Now().Before(k.until) }
