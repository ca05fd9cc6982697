package open

import (
	"path/filepath"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// Files returns the folders in which a run stores downloaded files, by destination. It warns about
// destinations that have no such folder.
func (o *Opener) Files(r *Run) map[string]string {
	i := slices.IndexFunc(r.Streams, func(s config.Stream) bool { return s.Class == schemas.ClassFile })
	if i < 0 {
		return nil
	}
	folders := map[string]string{}
	for _, to := range r.Pipeline.To {
		d, _ := r.Conf.Destination(to.Text)
		folders[d.Name] = o.filesOf(r.Conf, d.For(r.Pipeline.From[0].Text))
		if folders[d.Name] == "" {
			o.Log.Warn("the destination stores no files, only rows about them; set a folder with `files:`",
				"destination", d.Name, "stream", r.Streams[i].Name)
		}
	}
	return folders
}

// filesOf returns the folder in which a destination stores files. It is the configured folder, or else the default of
// the destination's kind; "" if there is none.
func (o *Opener) filesOf(c *config.Config, d config.Destination) string {
	dir := d.Files
	if p, err := o.Kinds.Of(c, d); dir == "" && err == nil && p.Folder != nil {
		dir = p.Folder(d)
	}
	if abs, err := filepath.Abs(dir); err == nil && dir != "" {
		return abs // stays valid if the working directory changes
	}
	return dir
}
