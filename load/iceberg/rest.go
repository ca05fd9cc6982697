//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/iceberg-go/table"
	"golang.org/x/sync/errgroup"
)

// restCatalog is the [backend] for two namespaces of a REST catalog. The catalog writes the metadata files.
type restCatalog struct {
	client       *restClient
	namespaces   namespaces
	transactions atomic.Bool // the catalog has transactions/commit

	mu     sync.Mutex
	loaded map[string]known // tables as last read
}

// lookups is the number of tables that are read at the same time.
const lookups = 8

func openREST(ctx context.Context, o Options) (*restCatalog, error) {
	client, err := newRESTClient(o)
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	r := &restCatalog{client: client, namespaces: o.namespaces(), loaded: map[string]known{}}
	if err = r.configure(ctx, o.Warehouse); err == nil {
		err = r.createNamespaces(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	return r, nil
}

const routeTransaction = "POST /v1/{prefix}/transactions/commit"

func (r *restCatalog) configure(ctx context.Context, warehouse string) error {
	var settings struct {
		Defaults, Overrides map[string]string
		Endpoints           []string
	}
	query := ""
	if warehouse != "" {
		query = url.Values{"warehouse": {warehouse}}.Encode()
	}
	if err := r.client.get(ctx, &settings, "config", "?"+query); err != nil {
		return err
	}
	if at := cmp.Or(settings.Overrides["uri"], settings.Defaults["uri"]); at != "" {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != r.client.base.Scheme || u.Host != r.client.base.Host { // Invariant 10
			return fmt.Errorf("the catalog refers to another server, %q: set catalog to its address", at)
		}
		r.client.base = u
	}
	for part := range strings.SplitSeq(cmp.Or(settings.Overrides["prefix"], settings.Defaults["prefix"]), "/") {
		text, err := url.PathUnescape(part) // some catalogs write the prefix with escapes, as in a path
		if err != nil {
			return fmt.Errorf("read the catalog's prefix %q: %w", part, err)
		}
		r.client.prefix = append(r.client.prefix, text)
	}
	r.transactions.Store(settings.Endpoints == nil || slices.Contains(settings.Endpoints, routeTransaction))
	return nil
}

// under() returns the parts of a URL path: those of the namespace's path, followed by the given parts.
func (r *restCatalog) under(namespace string, parts ...string) []string {
	return append(r.root("namespaces", namespace), parts...)
}

// table() returns the parts of a URL path: those of the table's path, followed by the given parts.
func (r *restCatalog) table(name string, parts ...string) []string {
	namespace, name := r.namespaces.identifier(name)
	return append(r.under(namespace, "tables", name), parts...)
}

func (r *restCatalog) root(parts ...string) []string {
	return append(slices.Clone(r.client.prefix), parts...)
}

func (r *restCatalog) createNamespaces(ctx context.Context) error {
	for _, name := range []string{r.namespaces.tables, r.namespaces.internal} {
		err := r.client.get(ctx, nil, r.under(name)...)
		if !isStatus(err, http.StatusNotFound) {
			if err != nil {
				return err
			}
			continue
		}
		if err := r.createNamespace(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (r *restCatalog) createNamespace(ctx context.Context, name string) error {
	if name == r.namespaces.internal {
		names, err := r.namesIn(ctx, r.namespaces.tables)
		if err == nil {
			err = r.namespaces.checkLayout(names)
		}
		if err != nil {
			return err
		}
	}
	err := r.client.do(ctx, http.MethodPost, map[string]any{"namespace": []string{name}}, nil, r.root("namespaces")...)
	if isStatus(err, http.StatusConflict) {
		return nil // another process has created it
	}
	return err
}

func (r *restCatalog) names(ctx context.Context) ([]string, error) {
	return r.namesIn(ctx, r.namespaces.internal)
}

func (r *restCatalog) namesIn(ctx context.Context, namespace string) (out []string, err error) {
	for page := ""; ; {
		var answer struct {
			Identifiers []struct{ Name string }
			Next        string `json:"next-page-token"`
		}
		if err := r.client.get(ctx, &answer, r.under(namespace, "tables", "?"+url.Values{"pageToken": {page}}.Encode())...); err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		for _, t := range answer.Identifiers {
			out = append(out, r.namespaces.table(namespace, t.Name))
		}
		if answer.Next == "" || answer.Next == page {
			return out, nil
		}
		page = answer.Next
	}
}

func (r *restCatalog) locate(ctx context.Context, names ...string) (map[string]string, error) {
	all := make([]known, len(names))
	work, loading := errgroup.WithContext(ctx)
	work.SetLimit(lookups)
	for i, name := range names {
		work.Go(func() (err error) {
			all[i], err = r.load(loading, name)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, name := range names {
		if all[i].at != "" {
			out[name] = all[i].at
		}
	}
	return out, nil
}

func (r *restCatalog) load(ctx context.Context, name string) (known, error) {
	var answer struct {
		At       string `json:"metadata-location"`
		Metadata json.RawMessage
	}
	err := r.client.get(ctx, &answer, r.table(name)...)
	if isStatus(err, http.StatusNotFound) {
		return known{}, nil
	}
	if err != nil {
		return known{}, fmt.Errorf("load table %s: %w", name, err)
	}
	r.mu.Lock()
	out := r.loaded[name]
	r.mu.Unlock()
	if out.at == answer.At && out.at != "" {
		return out, nil
	}
	meta, err := table.ParseMetadataBytes(answer.Metadata)
	if err != nil {
		return known{}, fmt.Errorf("load table %s: %w", name, err)
	}
	out = known{cmp.Or(answer.At, fmt.Sprint("changed ", meta.LastUpdatedMillis())), meta}
	r.mu.Lock()
	r.loaded[name] = out
	r.mu.Unlock()
	return out, nil
}

func (r *restCatalog) metadata(ctx context.Context, name, at string) (table.Metadata, error) {
	r.mu.Lock()
	k := r.loaded[name]
	r.mu.Unlock()
	if k.at == at {
		return k.meta, nil
	}
	k, err := r.load(ctx, name)
	if err == nil && k.at != at {
		err = fmt.Errorf("load table %s: it has changed: %w", name, fs.ErrNotExist)
	}
	return k.meta, err
}

// prepare does nothing, because the catalog writes the metadata.
func (r *restCatalog) prepare(context.Context, *change, string) error { return nil }

func (r *restCatalog) atomic() bool { return false }

// Close closes the connections to the catalog.
func (r *restCatalog) Close() error {
	r.client.http.CloseIdleConnections()
	return nil
}

// create creates an empty table with the field IDs of penstock, because many catalogs cannot create a table in a
// transaction. The commit then finds a table without snapshots, and recognizes it by the property propStream.
func (r *restCatalog) create(ctx context.Context, name string, updates []table.Update) (bool, error) {
	all := slices.Insert(slices.Clone(updates), 1, table.Update(table.NewUpgradeFormatVersionUpdate(formatVersion)))
	change, err := r.change(name, []table.Requirement{table.AssertCreate()}, all, 0)
	if err == nil {
		err = r.post(ctx, change, r.table(name))
	}
	if errors.Is(err, errConflict) {
		err = nil // another process has created it
	}
	return err == nil, err
}

// commit makes all changes in one transaction, if the catalog has transactions/commit. Otherwise it changes the tables
// one after the other. The head table, which has the cursor, is last. If the commit is interrupted, the head table
// still refers to the earlier snapshots of all tables, and the next commit starts from these snapshots: see
// [catalog.lookBack] and [commit.claim].
// Invariants 1, 2
func (r *restCatalog) commit(ctx context.Context, all []change) error {
	var changes []tableChange
	var dropped []string
	for _, c := range all {
		if c.meta == nil {
			dropped = append(dropped, c.table)
			continue
		}
		one, err := r.change(c.table, requirements(c.base), c.updates, c.meta.LastColumnID())
		if err != nil {
			return err
		}
		changes = append(changes, one)
	}
	var err error
	if r.transactions.Load() && len(changes) > 1 {
		err = r.post(ctx, map[string]any{"table-changes": changes}, r.root("transactions", "commit"))
		if errors.Is(err, errUnsupported) {
			r.transactions.Store(false)
			return errConflict // the next attempt changes the tables one after the other
		}
	} else {
		err = r.oneByOne(ctx, all, changes)
	}
	if err != nil {
		return err
	}
	for _, name := range dropped { // if the process ends here, the table stays in the catalog, but no commit refers to it
		err := r.client.do(ctx, http.MethodDelete, nil, nil, r.table(name, "?purgeRequested=false")...)
		if err != nil && !isStatus(err, http.StatusNotFound) {
			return fmt.Errorf("drop table %s: %w", name, err)
		}
	}
	return nil
}

func (r *restCatalog) oneByOne(ctx context.Context, all []change, changes []tableChange) error {
	for i, c := range changes {
		err := r.post(ctx, c, r.table(c.table))
		if err == nil {
			continue
		}
		if errors.Is(err, errConflict) {
			r.undo(ctx, all, changes[:i])
		}
		return fmt.Errorf("table %s: %w", c.table, err)
	}
	return nil
}

// undo is for a commit that has changed some tables, and then had a conflict at the next table. It makes the earlier
// snapshots of the changed tables current again. If undo fails, the next commit discards these changes.
func (r *restCatalog) undo(ctx context.Context, all []change, done []tableChange) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for _, c := range slices.Backward(done) {
		i := slices.IndexFunc(all, func(o change) bool { return o.table == c.table })
		was, is := all[i].base.CurrentSnapshot(), all[i].meta.CurrentSnapshot()
		if was == nil || is == nil || was.SnapshotID == is.SnapshotID {
			continue
		}
		back, err := r.change(c.table, []table.Requirement{table.AssertRefSnapshotID(table.MainBranch, &is.SnapshotID)},
			[]table.Update{
				table.NewSetSnapshotRefUpdate(table.MainBranch, was.SnapshotID, table.BranchRef, 0, 0, 0),
				table.NewSetSnapshotRefUpdate(ownTag, was.SnapshotID, table.TagRef, 0, 0, 0),
			}, 0)
		if err == nil {
			_ = r.post(ctx, back, r.table(c.table))
		}
	}
}

var errUnsupported = errors.New("the catalog does not support this request")

// post sends a commit. It does not repeat a failed request, because the catalog may have executed the request.
func (r *restCatalog) post(ctx context.Context, in any, path []string) error {
	err := r.client.do(ctx, http.MethodPost, in, nil, path...)
	answered, ok := errors.AsType[*statusError](err)
	switch {
	case err == nil:
		return nil
	case lost(err):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case !ok:
		return err
	case answered.status == http.StatusConflict, answered.kind == "NoSuchTableException":
		return fmt.Errorf("%w: %w", errConflict, err)
	case slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusNotImplemented}, answered.status):
		return fmt.Errorf("%w: %w", errUnsupported, err)
	}
	return err
}
