package serve

import "net/http"

func (d *Daemon) Handler() http.Handler { return d.route() }
