package objects

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

// Options configures access to a bucket. All fields are optional, but Azure needs AccessKey or Endpoint.
type Options struct {
	// Endpoint is the address of the server. If it begins with http://, TLS is not used. If it is "", the scheme of the
	// URL says which cloud is used: s3, gs or azblob. For Azure, if the host name does not contain the account, the
	// address ends with the account.
	Endpoint string
	Region   string // region of S3; "": found by a request
	Path     bool   // for S3: the bucket is in the path of requests, not in the host name

	// AccessKey and SecretKey are the credentials. They never appear in an error or a log. // Invariant 5
	//
	// For S3 they are a pair of keys. For Azure they are the account, and its key or a shared access signature (SAS).
	// For Google, SecretKey is the JSON text of a service account's key. If SecretKey is empty, the machine's own
	// account is used. For S3, that is so only if there are no keys in the environment or in the profile file of the
	// AWS tools.
	AccessKey, SecretKey string

	// Vendor gives out keys for S3, instead of AccessKey and SecretKey. These keys are sent to Endpoint, or to AWS if
	// Endpoint is "". Invariant 10
	Vendor Vendor

	Transport http.RoundTripper // nil: a default transport
}

const (
	storeSlowest = 64 << 10 // bytes per second; slower requests time out
)

// Removals is how many objects a caller may remove at the same time without opening new connections.
const Removals = 8

// Patience is the time limit of a request. The time to transfer its bytes is added.
const Patience = time.Minute

// storeRetry is the policy after transient errors. If an outage takes longer, the run fails, and the next run tries
// again.
var storeRetry = retry.Policy{First: time.Second / 16, Longest: time.Second, Jitter: 1, Attempts: 9}

// limited returns a context for a request that transfers size bytes. // Invariant 15
func limited(ctx context.Context, size int64) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, Patience+time.Duration(size/storeSlowest)*time.Second)
}

// Open opens the bucket of an address such as s3://bucket/prefix. It also returns the parsed address.
func Open(of string, o Options) (store Bucket, place *url.URL, err error) {
	place, err = url.Parse(of)
	if err != nil || place.Host == "" {
		return nil, nil, fmt.Errorf("want s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix")
	}
	switch place.Scheme {
	case "s3":
		if o.Vendor != nil {
			store, err = newVendedS3(place.Host, o)
			break
		}
		store, err = newS3(place.Host, o)
	case "gs":
		store, err = newGoogle(place.Host, o)
	case "azblob":
		store, err = newAzure(place.Host, o)
	default:
		err = fmt.Errorf("unknown scheme %q: want s3, gs or azblob", place.Scheme)
	}
	return store, place, err
}

func (o Options) server(standard string) string {
	if o.Endpoint == "" {
		return standard
	}
	if !strings.Contains(o.Endpoint, "://") {
		o.Endpoint = "https://" + o.Endpoint
	}
	return strings.TrimRight(o.Endpoint, "/")
}
