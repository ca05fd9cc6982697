package objects

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

type azure struct {
	*storeClient
	container string
}

const (
	azureVersion = "2021-08-06"
	// azureMachine is the address where a machine requests a token for its managed identity.
	azureMachine = "http://169.254.169.254/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F"
)

func newAzure(container string, o Options) (*azure, error) {
	if o.AccessKey == "" && o.Endpoint == "" {
		return nil, errors.New("missing access_key: set it to the name of the storage account")
	}
	a := &azure{
		storeClient: newStoreClient("azblob://"+container, o.Transport),
		container:   o.server("https://"+o.AccessKey+".blob.core.windows.net") + "/" + url.PathEscape(container),
	}
	a.fault = func(got *response) (string, string) {
		var said struct{ Message string }
		_ = xml.Unmarshal(got.body, &said) // the answer to a HEAD request has no body
		message, _, _ := strings.Cut(said.Message, "\n")
		return got.header.Get("x-ms-error-code"), message
	}
	secret, err := a.signer(o)
	if err != nil {
		return nil, err
	}
	a.sign = func(r *http.Request) error {
		r.Header.Set("x-ms-version", azureVersion)
		r.Header.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
		return secret(r)
	}
	return a, nil
}

// signer returns a function that signs requests. If SecretKey is empty, it uses the machine's managed identity.
// Otherwise SecretKey is a shared access signature or the key of the account.
func (a *azure) signer(o Options) (func(*http.Request) error, error) {
	switch {
	case o.SecretKey == "":
		tokens := oauth2.ReuseTokenSource(nil, &machineTokens{client: a.client, url: azureMachine, header: "Metadata", value: "true"})
		return func(r *http.Request) error {
			t, err := tokens.Token()
			if err == nil {
				t.SetAuthHeader(r)
			}
			return err
		}, nil
	case strings.Contains(o.SecretKey, "sig="):
		query := strings.TrimPrefix(o.SecretKey, "?")
		return func(r *http.Request) error {
			r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+query, "&")
			return nil
		}, nil
	}
	return sharedKey(o.AccessKey, o.SecretKey)
}

// blob returns the path of an object, with each part escaped. The signature covers the escaped form.
func (a *azure) blob(key string) string {
	parts := strings.Split(key, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return a.container + "/" + strings.Join(parts, "/")
}

func (a *azure) upload(ctx context.Context, key string, r request, header ...string) (*response, error) {
	r.method, r.url = http.MethodPut, a.blob(key)
	r.header = map[string]string{"x-ms-blob-type": "BlockBlob"}
	for pair := range slices.Chunk(header, 2) {
		r.header[pair[0]] = pair[1]
	}
	return a.do(ctx, "store", key, r)
}

// Put implements [Bucket].
func (a *azure) Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	_, err := a.upload(ctx, key, request{body: body, size: size}, "Content-Type", parquetType)
	return err
}

// Create implements [Bucket].
func (a *azure) Create(ctx context.Context, key string, text []byte) error {
	got, err := a.upload(ctx, key, request{
		body: bytes.NewReader(text), size: int64(len(text)), pass: []int{http.StatusPreconditionFailed, http.StatusConflict},
	}, "Content-Type", jsonType, "If-None-Match", "*")
	if err != nil || got.status/100 == 2 {
		return err
	}
	switch code, message := a.fault(got); code { // after any other code, it is unknown whether the object exists
	case "BlobAlreadyExists", "ConditionNotMet", "UnauthorizedBlobOverwrite":
		return fmt.Errorf("store %s: %w", key, ErrTaken)
	default:
		return fmt.Errorf("store %s/%s: %s %s (%d)", a.name, key, code, message, got.status)
	}
}

// Get implements [Bucket].
func (a *azure) Get(ctx context.Context, key string, from, n int64) ([]byte, int64, error) {
	got, err := a.do(ctx, "read", key, request{method: http.MethodGet, url: a.blob(key), header: ranged("x-ms-range", from, n), get: n})
	if err != nil {
		return nil, 0, err
	}
	return got.part()
}

type azurePage struct {
	Blobs    []azureBlob `xml:"Blobs>Blob"`
	Prefixes []azureName `xml:"Blobs>BlobPrefix>Name"`
	Next     string      `xml:"NextMarker"`
}

type azureBlob struct {
	Name azureName
	Size int64 `xml:"Properties>Content-Length"`
}

// azureName is a name in a listing. It is percent-encoded if XML cannot represent it.
type azureName struct {
	Encoded bool   `xml:",attr"`
	Text    string `xml:",chardata"`
}

// String returns the decoded name.
func (n azureName) String() string {
	if n.Encoded {
		if text, err := url.PathUnescape(n.Text); err == nil {
			return text
		}
	}
	return n.Text
}

func (a *azure) pages(ctx context.Context, prefix string, query url.Values, visit func(*azurePage) bool) error {
	query.Set("restype", "container")
	query.Set("comp", "list")
	query.Set("prefix", prefix)
	for {
		got, err := a.do(ctx, "list", prefix, request{method: http.MethodGet, url: a.container + "?" + query.Encode()})
		if err != nil {
			return err
		}
		var page azurePage
		if err := xml.Unmarshal(got.body, &page); err != nil {
			return fmt.Errorf("list %s/%s: %w", a.name, prefix, err)
		}
		if !visit(&page) || page.Next == "" {
			return nil
		}
		query.Set("marker", page.Next)
	}
}

// List implements [Bucket].
func (a *azure) List(ctx context.Context, prefix string, pageSize int, visit func(string, int64) bool) error {
	query := url.Values{}
	if pageSize > 0 {
		query.Set("maxresults", strconv.Itoa(pageSize))
	}
	return a.pages(ctx, prefix, query, func(p *azurePage) bool {
		for _, b := range p.Blobs {
			if !visit(b.Name.String(), b.Size) {
				return false
			}
		}
		return true
	})
}

// Folders implements [Bucket].
func (a *azure) Folders(ctx context.Context, prefix string) (out []string, err error) {
	err = a.pages(ctx, prefix, url.Values{"delimiter": {"/"}}, func(p *azurePage) bool {
		for _, of := range p.Prefixes {
			if name := strings.TrimSuffix(strings.TrimPrefix(of.String(), prefix), "/"); name != "" {
				out = append(out, name)
			}
		}
		return true
	})
	return out, err
}

// Remove implements [Bucket].
func (a *azure) Remove(ctx context.Context, key string) error {
	_, err := a.do(ctx, "remove", key, request{method: http.MethodDelete, url: a.blob(key), pass: []int{http.StatusNotFound}})
	return err
}

// Uploads returns none, because each object is stored by a single request.
func (a *azure) Uploads(context.Context, string) ([]Upload, error) { return nil, nil }

// AbortUpload implements [Bucket].
func (a *azure) AbortUpload(context.Context, Upload) error { return nil }
