package browse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// savedFolder is the folder with saved queries, beside the configuration.
const savedFolder = "queries"

// maxSaved limits the number of saved queries that are listed. // Invariant 6
const maxSaved = 200

// Saved is a saved query: a file queries/NAME.sql beside the configuration.
type Saved struct{ Name, SQL string }

// SavedQueries returns the saved queries, by name. People write and review these files. penstock only reads them.
func (b *Browser) SavedQueries() ([]Saved, error) {
	dir := filepath.Join(filepath.Dir(b.Opener.File), savedFolder)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read saved queries: %w", err)
	}
	var all []Saved
	for _, e := range entries {
		name, isSQL := strings.CutSuffix(e.Name(), ".sql")
		if !isSQL || !e.Type().IsRegular() || len(all) == maxSaved {
			continue
		}
		sql, err := open.ReadUpTo(filepath.Join(dir, e.Name()), MaxStatement+1)
		if err != nil {
			return nil, fmt.Errorf("read saved query %s: %w", name, err)
		}
		if len(sql) > MaxStatement {
			sql = fmt.Appendf(nil, "-- %s has more than %d bytes, so it cannot run here", e.Name(), MaxStatement)
		}
		all = append(all, Saved{name, string(sql)})
	}
	return all, nil
}
