package open

import (
	"path/filepath"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// Locations returns where the selected destination is, or all destinations if the selection is empty. It opens none of
// them. For a file or a folder, the path is absolute; otherwise it is a URL without secrets.
func (o *Opener) Locations(q Selection) (render.Answer, error) {
	out := render.Answer{}
	for _, name := range []string{"destination", "source", "kind", "path", "schema", "publish"} {
		out.Columns = append(out.Columns, schemas.Field(name, schemas.Text, ""))
	}
	c, err := o.LoadDestinations()
	if err != nil {
		return out, err
	}
	add := func(d config.Destination, source string) error {
		row, err := o.Kinds.location(d.For(source), source)
		out.Rows = append(out.Rows, row)
		return err
	}
	if q != (Selection{}) {
		d, source, err := q.find(c)
		if err == nil {
			err = add(d, source)
		}
		return out, err
	}
	for _, d := range c.Destinations {
		parts := []string{""}
		if d.PerSource() {
			parts = c.SourcesOf(d)
		}
		for _, part := range parts {
			if err := add(d, part); err != nil {
				return out, err
			}
		}
	}
	return out, nil
}

func (all Kinds) location(d config.Destination, source string) (row []any, err error) {
	path := d.Shown
	for _, k := range all {
		if k.Scheme == d.Scheme && k.OnHost != nil && k.OnHost(d) {
			if path, _ = FilePath(d); path != "" {
				path, err = filepath.Abs(path)
			}
		}
	}
	publish := d.Publish
	if publish != "" && err == nil {
		publish, err = filepath.Abs(publish)
	}
	row = []any{d.Name, source, d.Scheme, path, d.Schema, publish}
	for i, text := range row {
		if text == "" {
			row[i] = nil
		}
	}
	return row, err
}
