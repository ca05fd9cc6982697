package load

import "errors"

// MostRow is the greatest size of a row in the result of a [Querier], in bytes. It is also the greatest size of one value.
// It equals the greatest size of an answer of a source, so each stored value fits. // Invariant 6
const MostRow = 64 << 20

// ErrTooLarge is returned by a [Querier] if a row of the result is larger than [MostRow].
var ErrTooLarge = errors.New("a row of the result is larger than 64 MiB; select fewer columns, or shorten long values with substr(column, 1, 200)")
