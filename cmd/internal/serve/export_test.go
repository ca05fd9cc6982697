package serve

import "net/http"

// Handler is what answers the daemon's requests.
func (d *Daemon) Handler() http.Handler { return d.route() }
