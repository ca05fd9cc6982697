//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/table"

	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/schemas"
)

// vendor gets temporary keys for the folders of tables from a REST catalog (vended credentials).
//
// The catalog is not trusted with the choice of a server. The keys, and so the files, are sent only to the endpoint in
// the configuration. If the configuration has none, they are sent only to AWS. The bucket and the folders are those of
// the configuration too. Invariant 10
type vendor struct {
	bucket   string // s3://bucket
	prefix   string // of the lake's objects in the bucket; "", or ends with a slash
	endpoint string // "": AWS
	catalog  *restCatalog
}

var _ objects.Vendor = (*vendor)(nil)

func newVendor(o Options) (*vendor, error) {
	at, err := url.Parse(o.Bucket)
	switch {
	case !isREST(o.Catalog):
		return nil, errors.New("only a REST catalog (catalog=https://…) can give out keys")
	case err != nil || at.Scheme != "s3":
		return nil, errors.New("catalogs can give out keys only for s3://bucket/prefix")
	case o.Store.AccessKey != "" || o.Store.SecretKey != "":
		return nil, errors.New("there are two kinds of keys: remove vended_credentials, or access_key and secret_key")
	}
	v := &vendor{bucket: at.Scheme + "://" + at.Host, endpoint: o.Store.Endpoint}
	if v.prefix = strings.Trim(at.Path, "/"); v.prefix != "" {
		v.prefix += "/"
	}
	return v, nil
}

// Location implements [objects.Vendor]. The folder of a table is in the folder of its namespace.
func (v *vendor) Location(key string) (string, error) {
	name, ok := strings.CutPrefix(key, v.prefix)
	parts := strings.SplitN(name, "/", 4)
	if !ok || len(parts) < 3 {
		return "", errors.New("the catalog gives out keys only for the folders of tables")
	}
	if parts[2] == "_manifests" && !strings.HasPrefix("_"+parts[1], headPrefix) { // without vended credentials, the manifests are outside of the folders of tables
		return "", errors.New("the stream was loaded with access_key and secret_key, and its manifests are not in the folder of a table: remove vended_credentials and set these keys again, or load into another schema")
	}
	return v.prefix + parts[0] + "/" + parts[1] + "/", nil
}

// delegation is the part of an answer that has the keys for a table.
type delegation struct {
	Config      map[string]string
	Credentials []struct {
		Prefix string
		Config map[string]string
	} `json:"storage-credentials"`
	Metadata json.RawMessage
}

// Keys implements [objects.Vendor]. If the table does not exist yet, it asks the catalog to stage its creation: the
// catalog then gives out keys, but creates no table. The commit creates the table.
func (v *vendor) Keys(ctx context.Context, location string) (objects.Keys, error) {
	namespace, folder, _ := strings.Cut(strings.Trim(strings.TrimPrefix(location, v.prefix), "/"), "/")
	name := v.catalog.namespaces.tableIn(namespace, folder)
	at := v.bucket + "/" + strings.TrimSuffix(location, "/")
	var answer delegation
	client := v.catalog.client.delegated()
	table := v.catalog.table(name, "?snapshots=refs")
	err := client.get(ctx, &answer, table...)
	if isStatus(err, http.StatusNotFound) {
		namespace, name := v.catalog.namespaces.identifier(name)
		err = client.repeat(ctx, http.MethodPost, staged(name, at), &answer, v.catalog.under(namespace, "tables")...)
	}
	if isStatus(err, http.StatusConflict) { // another process has just created the table
		err = client.get(ctx, &answer, table...)
	}
	if err != nil {
		return objects.Keys{}, fmt.Errorf("get keys for table %s: %w", name, err)
	}
	keys, err := v.keys(answer, at, time.Now())
	if err != nil {
		return keys, fmt.Errorf("get keys for table %s: %w", name, err)
	}
	return keys, nil
}

// tableIn returns the table whose files are in a folder. The parameters are the names of the namespace's folder and of
// the table's folder.
func (n namespaces) tableIn(namespace, folder string) string {
	decode := func(folder string) string {
		if name, err := url.PathUnescape(strings.ReplaceAll(folder, "~", "%")); err == nil {
			return name
		}
		return folder
	}
	return n.table(decode(namespace), decode(folder))
}

// staged returns the request to stage the creation of a table. Its columns do not matter, because the commit creates
// the table with its own columns.
func staged(name, at string) any {
	return map[string]any{
		"name": name, "location": at, "stage-create": true,
		"schema": iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: schemas.ColSyncedAt, Type: iceberg.PrimitiveTypes.TimestampTz}),
	}
}

var region = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// keys reads the keys for the folder of a table from an answer. If the answer has several sets of keys, it uses the set
// with the longest prefix.
func (v *vendor) keys(answer delegation, at string, now time.Time) (objects.Keys, error) {
	var out objects.Keys
	if meta, err := table.ParseMetadataBytes(answer.Metadata); err == nil && anyScheme(meta.Location()) != anyScheme(at) {
		return out, fmt.Errorf("the table is at %s, and not at %s", meta.Location(), at)
	}
	settings, longest := answer.Config, -1
	for _, c := range answer.Credentials {
		if covers(c.Prefix, at) && len(c.Prefix) > longest {
			settings, longest = c.Config, len(c.Prefix)
		}
	}
	setting := func(name string) string { return cmp.Or(settings[name], answer.Config[name]) }
	out = objects.Keys{
		AccessKey: settings["s3.access-key-id"], SecretKey: settings["s3.secret-access-key"], SessionToken: settings["s3.session-token"],
		Path: setting("s3.path-style-access") == "true", Region: cmp.Or(setting("s3.region"), setting("client.region")),
	}
	switch stated := setting("s3.endpoint"); {
	case out.AccessKey == "" || out.SecretKey == "":
		return out, errors.New("the catalog gives out no keys: allow it to vend credentials, or remove vended_credentials and set access_key and secret_key")
	case out.Region != "" && !region.MatchString(out.Region):
		return out, fmt.Errorf("the catalog states the region %q", out.Region)
	case v.endpoint == "" && stated != "" && !isAWS(stated):
		return out, fmt.Errorf("the catalog refers to the store %q: if you trust it, set endpoint to its address", stated)
	}
	out.Until = now.Add(keysFor)
	if ms, err := strconv.ParseInt(settings["s3.session-token-expires-at-ms"], 10, 64); err == nil {
		end := time.UnixMilli(ms)
		out.Until = end.Add(-min(keysMargin, max(0, end.Sub(now)/2)))
	}
	return out, nil
}

const (
	keysFor    = 10 * time.Minute // how long keys are used if the catalog does not state when they expire
	keysMargin = 5 * time.Minute  // how long before their expiry keys are replaced
)

func anyScheme(location string) string {
	_, path, _ := strings.Cut(location, "://") // s3a and s3n mean s3
	return strings.TrimSuffix(path, "/")
}

// covers reports whether the location is in the part of the store to which a prefix belongs.
func covers(prefix, at string) bool {
	_, path, ok := strings.Cut(prefix, "://")
	path = strings.TrimSuffix(path, "/")
	return strings.HasPrefix(prefix, "s3") && (!ok || path == "" || strings.HasPrefix(anyScheme(at)+"/", path+"/"))
}

// isAWS reports whether an endpoint is one of AWS.
func isAWS(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && u.Scheme == "https" && (strings.HasSuffix(u.Hostname(), ".amazonaws.com") || strings.HasSuffix(u.Hostname(), ".amazonaws.com.cn"))
}
