//go:build !(darwin || freebsd || linux)

package state

// diskSpace cannot find out the space here. A full disk is only noticed when a write fails; then deliveries are
// refused with 503.
func diskSpace(string) (free, all int64, ok bool) { return 0, 0, false }
