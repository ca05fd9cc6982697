package serve

import "net/http"

// Handler returns the daemon's HTTP handler.
func (d *Daemon) Handler() http.Handler { return d.route() }
