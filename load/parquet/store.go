package parquet

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Store says how a bucket is reached. Everything may be left out but the keys of
// Azure.
type Store struct {
	// Endpoint is the server, with http:// before it for one without TLS; "": that of
	// the cloud which the bucket's scheme is of. For Azure it ends with the account
	// where that is not part of the host's name.
	Endpoint string
	Region   string // of S3; "": the bucket's is asked for
	Path     bool   // of S3: the bucket stands in the path of requests rather than in the host's name

	// AccessKey and SecretKey are the credentials, which occur in no error and no
	// log. // Invariant 5. For S3 they are a pair of keys; for Azure the account, and
	// its key or a signature for shared access (SAS); for Google SecretKey is the JSON
	// text of a service account's key. Where SecretKey is left out, the machine says
	// who it is; for S3, what AWS tools would find comes first: the environment and
	// the profile's file.
	AccessKey, SecretKey string

	Transport http.RoundTripper // nil: the library's
}

const (
	storeRetries  = 8        // with up to a second in between: what lasts longer is for the next run
	storeSlowest  = 64 << 10 // bytes a second below which a request is given up
	storePatience = time.Minute
)

// limited bounds a request that moves so many bytes. // Invariant 15
func limited(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, storePatience+time.Duration(size/storeSlowest)*time.Second)
}

// openStore opens the bucket of a URL, whose scheme says what kind of store it is.
func openStore(of string, o Store) (store objects, place *url.URL, err error) {
	place, err = url.Parse(of)
	if err != nil || place.Host == "" {
		return nil, nil, fmt.Errorf("want s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix")
	}
	switch place.Scheme {
	case "s3":
		store, err = newS3(place.Host, o)
	case "gs":
		store, err = newGoogle(place.Host, o)
	case "azblob":
		store, err = newAzure(place.Host, o)
	default:
		err = fmt.Errorf("no object store for %q; there are s3, gs and azblob", place.Scheme)
	}
	return store, place, err
}

// server is an endpoint with a scheme and without a slash at its end.
func (o Store) server(standard string) string {
	if o.Endpoint == "" {
		return standard
	}
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	return strings.TrimRight(o.Endpoint, "/")
}
