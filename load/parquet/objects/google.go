package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
)

// google uses the JSON API of Google Cloud Storage. The S3-compatible API is not usable, because it ignores
// preconditions when it stores an object: see https://cloud.google.com/storage/docs/xml-api/reference-headers.
type google struct {
	*storeClient
	all   string
	fresh string
}

const (
	googleServer = "https://storage.googleapis.com"
	googleScope  = "https://www.googleapis.com/auth/devstorage.read_write"
	googleTokens = "https://oauth2.googleapis.com/token"
	// googleMachine is the address where a machine requests a token for its service account.
	googleMachine = "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token"
)

func newGoogle(bucket string, o Options) (*google, error) {
	server := o.server(googleServer)
	g := &google{
		storeClient: newStoreClient("gs://"+bucket, o.Transport),
		all:         server + "/storage/v1/b/" + url.PathEscape(bucket) + "/o",
		fresh:       server + "/upload/storage/v1/b/" + url.PathEscape(bucket) + "/o",
	}
	tokens, err := g.tokens(o.SecretKey)
	if err != nil {
		return nil, err
	}
	g.sign = func(r *http.Request) error {
		t, err := tokens.Token()
		if err != nil {
			return withoutURL(err)
		}
		t.SetAuthHeader(r)
		return nil
	}
	g.fault = func(got *response) (string, string) {
		var said struct {
			Error struct {
				Message string
				Errors  []struct{ Reason string }
			}
		}
		if json.Unmarshal(got.body, &said) != nil || len(said.Error.Errors) == 0 {
			return http.StatusText(got.status), said.Error.Message
		}
		return said.Error.Errors[0].Reason, said.Error.Message
	}
	return g, nil
}

func (g *google) tokens(key string) (oauth2.TokenSource, error) {
	if key == "" {
		return oauth2.ReuseTokenSource(nil, &machineTokens{client: g.client, url: googleMachine, header: "Metadata-Flavor", value: "Google"}), nil
	}
	var account struct {
		Type  string `json:"type"`
		Email string `json:"client_email"`
		ID    string `json:"private_key_id"`
		Key   string `json:"private_key"`
		URL   string `json:"token_uri"`
	}
	if err := json.Unmarshal([]byte(key), &account); err != nil {
		return nil, errors.New("the key of the service account is not JSON")
	}
	if account.Type != "service_account" {
		return nil, fmt.Errorf("the key has the type %q, not service_account", account.Type)
	}
	if account.URL == "" {
		account.URL = googleTokens
	}
	c := jwt.Config{Email: account.Email, PrivateKeyID: account.ID, PrivateKey: []byte(account.Key), TokenURL: account.URL, Scopes: []string{googleScope}}
	return c.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: g.client.Transport, Timeout: Patience})), nil
}

func (g *google) object(key string) string { return g.all + "/" + url.PathEscape(key) }

func (g *google) upload(ctx context.Context, key string, query url.Values, a request) (*response, error) {
	query.Set("uploadType", "media")
	query.Set("name", key)
	a.method, a.url = http.MethodPost, g.fresh+"?"+query.Encode()
	return g.do(ctx, "store", key, a)
}

// Put implements [Bucket].
func (g *google) Put(ctx context.Context, key string, body io.ReadSeeker, size int64) error {
	_, err := g.upload(ctx, key, url.Values{}, request{body: body, size: size, header: map[string]string{"Content-Type": parquetType}})
	return err
}

// Create implements [Bucket]. The condition ifGenerationMatch=0 means that the object does not exist yet.
func (g *google) Create(ctx context.Context, key string, text []byte) error {
	got, err := g.upload(ctx, key, url.Values{"ifGenerationMatch": {"0"}}, request{
		body: bytes.NewReader(text), size: int64(len(text)), header: map[string]string{"Content-Type": jsonType},
		pass: []int{http.StatusPreconditionFailed, http.StatusConflict},
	})
	if err == nil && got.status/100 != 2 {
		err = fmt.Errorf("store %s: %w", key, ErrTaken)
	}
	return err
}

// Get implements [Bucket].
func (g *google) Get(ctx context.Context, key string, from, n int64) ([]byte, int64, error) {
	got, err := g.do(ctx, "read", key, request{method: http.MethodGet, url: g.object(key) + "?alt=media", header: ranged("Range", from, n), get: n})
	if err != nil {
		return nil, 0, err
	}
	return got.part()
}

func ranged(name string, from, n int64) map[string]string {
	if n == 0 {
		return nil
	}
	return map[string]string{name: fmt.Sprintf("bytes=%d-%d", from, from+n-1)}
}

func (got *response) part() ([]byte, int64, error) {
	_, whole, ok := strings.Cut(got.header.Get("Content-Range"), "/")
	if !ok {
		return got.body, int64(len(got.body)), nil
	}
	size, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read Content-Range %q", got.header.Get("Content-Range"))
	}
	return got.body, size, nil
}

type googlePage struct {
	Items []struct {
		Name string
		Size int64 `json:",string"`
	}
	Prefixes []string
	Next     string `json:"nextPageToken"`
}

func (g *google) pages(ctx context.Context, prefix string, query url.Values, visit func(*googlePage) bool) error {
	query.Set("prefix", prefix)
	query.Set("fields", "items(name,size),prefixes,nextPageToken")
	for {
		got, err := g.do(ctx, "list", prefix, request{method: http.MethodGet, url: g.all + "?" + query.Encode()})
		if err != nil {
			return err
		}
		var page googlePage
		if err := json.Unmarshal(got.body, &page); err != nil {
			return fmt.Errorf("list %s/%s: %w", g.name, prefix, err)
		}
		if !visit(&page) || page.Next == "" {
			return nil
		}
		query.Set("pageToken", page.Next)
	}
}

// List implements [Bucket].
func (g *google) List(ctx context.Context, prefix string, pageSize int, visit func(string, int64) bool) error {
	query := url.Values{}
	if pageSize > 0 {
		query.Set("maxResults", strconv.Itoa(pageSize))
	}
	return g.pages(ctx, prefix, query, func(p *googlePage) bool {
		for _, o := range p.Items {
			if !visit(o.Name, o.Size) {
				return false
			}
		}
		return true
	})
}

// Folders implements [Bucket].
func (g *google) Folders(ctx context.Context, prefix string) (out []string, err error) {
	err = g.pages(ctx, prefix, url.Values{"delimiter": {"/"}}, func(p *googlePage) bool {
		for _, name := range p.Prefixes {
			if name = strings.TrimSuffix(strings.TrimPrefix(name, prefix), "/"); name != "" {
				out = append(out, name)
			}
		}
		return true
	})
	return out, err
}

// Remove implements [Bucket].
func (g *google) Remove(ctx context.Context, key string) error {
	_, err := g.do(ctx, "remove", key, request{method: http.MethodDelete, url: g.object(key), pass: []int{http.StatusNotFound}})
	return err
}

// Uploads returns none, because each object is stored by a single request.
func (g *google) Uploads(context.Context, string) ([]Upload, error) { return nil, nil }

// AbortUpload implements [Bucket].
func (g *google) AbortUpload(context.Context, Upload) error { return nil }
