package main

import (
	"path/filepath"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// files are the folders, by destination, in which a run keeps the files that
// rows are about. Of a run whose destinations have some that keep none, it says
// so.
func (a *app) files(r *openedRun) map[string]string {
	i := slices.IndexFunc(r.streams, func(s config.Stream) bool { return s.Class == schemas.ClassFile })
	if i < 0 {
		return nil
	}
	folders := map[string]string{}
	for _, to := range r.pipeline.To {
		d, _ := r.conf.Destination(to.Text)
		folders[d.Name] = filesOf(r.conf, d.For(r.pipeline.From[0].Text))
		if folders[d.Name] == "" {
			a.log.Warn("the destination keeps no files, only rows about them; name a folder with files:",
				"destination", d.Name, "stream", r.streams[i].Name)
		}
	}
	return folders
}

// filesOf is the folder in which a destination keeps files: the one that the
// configuration names, or its kind's own; "" for none.
func filesOf(c *config.Config, d config.Destination) string {
	dir := d.Files
	if p, err := placeOf(c, d); dir == "" && err == nil && p.folder != nil {
		dir = p.folder(d)
	}
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs // whatever becomes of the working folder
	}
	return dir
}
