package facts

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Points implements board.Past.
func (f *Facts) Points(ctx context.Context, of []state.Series, since time.Time) ([]state.Point, error) {
	if f.Workspaces.State == nil {
		return nil, nil
	}
	h, err := f.Workspaces.State.ReadHistory(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	points, err := h.Points(ctx, of, since)
	return points, errors.Join(err, h.Close())
}

// currentSuffix ends the name of the view of the current rows of a table that keeps its history.
const currentSuffix = "_current"

// Views implements board.Past. It knows the tables of penstock's own views, and of views of current rows.
func (f *Facts) Views(ctx context.Context) ([]board.View, error) {
	kit, err := f.kit()
	if err != nil {
		return nil, err
	}
	var all []board.View
	for _, b := range f.snapshotsOf(ctx, "") {
		for _, name := range slices.Sorted(maps.Keys(b.views)) {
			v := board.View{Name: name, Destination: b.part.Name}
			if i := slices.IndexFunc(kit, func(v schemas.View) bool { return v.Name == name }); i >= 0 {
				v.Title, v.Tables = kit[i].Title, slices.Sorted(maps.Keys(kit[i].Needs))
			} else if table, ok := strings.CutSuffix(name, currentSuffix); ok {
				v.Tables = []string{table}
			}
			all = append(all, v)
		}
	}
	return all, nil
}
