//go:build iceberg

package iceberg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load/parquet"
)

// Built reports whether this binary includes the destination.
const Built = true

const (
	defaultName      = "penstock"
	defaultNamespace = "penstock"
	catalogFile      = "catalog.db" // the catalog's file in a warehouse that is a local folder
)

// Open opens the tables of a namespace, and penstock's internal tables in a second namespace. Closing the lake closes the catalog.
func Open(ctx context.Context, o Options) (*parquet.Lake, error) { return openLake(ctx, o, claimWait) }

// openLake does the same as Open. The parameter claimWait is how long a commit waits for a claim: see [claimWait].
func openLake(ctx context.Context, o Options, claimWait time.Duration) (*parquet.Lake, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("open warehouse: %w", err)
	}
	if isREST(o.Catalog) && o.Keep == 1 {
		o.Keep = 2 // if a commit is interrupted, the next commit starts from the last complete commit, so the files of that commit are kept
	}
	var keys *vendor
	if o.Vended {
		if keys, err = newVendor(o); err != nil {
			return nil, fmt.Errorf("open warehouse: %w", err)
		}
		o.Store.Vendor = keys
	}
	o.Options.Catalog = func(ctx context.Context, lake parquet.Files) (parquet.Catalog, error) {
		b, err := openBackend(ctx, o, files{lake})
		if err != nil {
			return nil, err
		}
		if keys != nil {
			keys.catalog = b.(*restCatalog)
		}
		return &catalog{files: files{lake}, backend: b, namespaces: o.namespaces(), step: o.Step, claimWait: claimWait,
			seen: map[string]known{}, streams: map[string]string{}, claims: map[string]time.Time{}, commitLocks: map[string]chan struct{}{}}, nil
	}
	return parquet.Open(ctx, o.Options)
}

func openBackend(ctx context.Context, o Options, lake files) (backend, error) {
	if isREST(o.Catalog) {
		return openREST(ctx, o)
	}
	return openPointers(ctx, o, lake)
}

func (o Options) namespaces() namespaces {
	return namespaces{tables: o.Namespace, internal: o.Namespace + internalSuffix}
}

func (o Options) withDefaults() (Options, error) {
	o.Name, o.Namespace = cmp.Or(o.Name, defaultName), cmp.Or(o.Namespace, defaultNamespace)
	if strings.HasSuffix(o.Namespace, internalSuffix) {
		return o, fmt.Errorf("namespace %s: names that end with %s are reserved for penstock's own tables: choose another name", o.Namespace, internalSuffix)
	}
	if o.Catalog != "" {
		return o, nil
	}
	if o.Path == "" {
		return o, errors.New("a warehouse in a bucket needs a catalog: sqlite:PATH or postgres://…")
	}
	path, err := filepath.Abs(filepath.Join(o.Path, catalogFile))
	o.Catalog = "sqlite:" + path
	return o, err
}
