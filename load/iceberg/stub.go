//go:build !iceberg

package iceberg

import (
	"context"

	"github.com/penstock-data/penstock/load/parquet"
)

// Built reports whether this binary includes the destination.
const Built = false

// Open returns [ErrNotBuilt].
func Open(context.Context, Options) (*parquet.Lake, error) { return nil, ErrNotBuilt }
