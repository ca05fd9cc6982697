package main

import (
	"path/filepath"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// files returns the folders in which a run stores downloaded files, by destination. It warns about
// destinations that have no such folder.
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
			a.log.Warn("the destination stores no files, only rows about them; set a folder with files:",
				"destination", d.Name, "stream", r.streams[i].Name)
		}
	}
	return folders
}

// filesOf returns the folder in which a destination stores files. It is the configured folder, or else the default
// of the destination's kind; "" if there is none.
func filesOf(c *config.Config, d config.Destination) string {
	dir := d.Files
	if p, err := destinationKindOf(c, d); dir == "" && err == nil && p.folder != nil {
		dir = p.folder(d)
	}
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs // stays valid if the working directory changes
	}
	return dir
}
