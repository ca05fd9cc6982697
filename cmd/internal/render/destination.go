package render

import (
	"errors"
	"strings"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// HintFull is the hint for a full disk.
const HintFull = "the disk is full: free some space and run again; committed data is safe"

// tempLimit is the setting of DuckDB that its error names if a statement needs more temporary files than allowed.
const tempLimit = "'max_temp_directory_size'"

// DestinationRemedy returns the hint for an error of a destination's file; "" if there is none.
func DestinationRemedy(err error) string {
	switch {
	case err != nil && strings.Contains(err.Error(), tempLimit):
		// Cause: a statement of DuckDB needs more disk for temporary files than `temp_limit`
		return "set a larger limit in the url of the DuckDB destination, such as `?temp_limit=50GB`, or write a query that sorts or groups less data"
	case errors.Is(err, syscall.ENOSPC):
		// Cause: no space is left on the disk
		return HintFull
	case errors.Is(err, load.ErrNotDatabase):
		// Cause: the file of the destination has other content than a database of this kind
		return "nothing was changed; correct the path in the url of the destination, or move the file away"
	}
	return ""
}

// storeRemedy returns the hint for a stream that a destination could not store; "" if there is none.
func storeRemedy(s pipeline.StreamReport) string {
	owner, owned := errors.AsType[*load.OwnerError](s.Err)
	switch {
	case owned && owner.Moved():
		// Cause: the source has another address than the one that the rows in the table came from
		return "nothing was written; the existing rows come from the previous address of the source"
	case owned:
		// Cause: another pipeline writes to the table
		return "nothing was written; give this pipeline another schema, folder or file, or let it take over the table: `penstock state adopt --stream " + s.Stream + "`"
	case errors.Is(s.Err, state.ErrLocked):
		// Cause: another program has the file of the destination open
		return "wait for the program that has the file open, or close it, then run again; nothing was changed"
	case errors.Is(s.Err, load.ErrForeignChange):
		// Cause: a column or type of the table was changed outside penstock
		return "nothing was written; `penstock schema show " + s.Table + "` shows what was changed"
	case DestinationRemedy(s.Err) != "":
		return DestinationRemedy(s.Err)
	case s.Status == pipeline.StatusLagging:
		// Cause: one of several destinations could not be written
		return "the other destinations have the data; `penstock check` shows what is wrong with this destination; the next run brings the destination up to date"
	}
	return ""
}
