package parquet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	pqfile "github.com/apache/arrow-go/v18/parquet/file"

	"github.com/penstock-data/penstock/load/parquet/encode"
	"github.com/penstock-data/penstock/load/parquet/objects"
	"github.com/penstock-data/penstock/state"
)

// bucketGeneration stores its files one by one. Until the commit, no manifest names them.
type bucketGeneration struct {
	store *bucketStore

	mu             sync.Mutex
	stored         []string
	outcomeUnknown bool
}

func (s *bucketStore) draft(context.Context) (pendingGeneration, error) {
	return &bucketGeneration{store: s}, nil
}

// create writes the file to the local disk first. So if an upload fails, it can be tried again.
func (d *bucketGeneration) create(t *table, name string) (output, error) {
	d.store.remember(nil) // the remembered listing becomes outdated
	f, err := os.CreateTemp(d.store.bucket.scratch, "penstock-parquet-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // if the system cannot remove an open file, abandon removes it
	return &upload{File: f, draft: d, dir: d.store.dir(t)}, nil
}

// assemble does nothing, because finish has already stored the files.
func (d *bucketGeneration) assemble(context.Context, *manifest) error { return nil }

func (d *bucketGeneration) publish(ctx context.Context, m *manifest) error {
	m.store = d.store
	named := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			named[f.key()] = true
		}
	}
	if err := d.commit(ctx, m); err != nil {
		return err
	}
	d.stored = slices.DeleteFunc(d.stored, func(key string) bool { return named[key] })
	return nil
}

func (d *bucketGeneration) move(ctx context.Context, m *manifest) error {
	m.Parent, m.Sequence = m.Sequence, m.Sequence+1
	return d.commit(ctx, m)
}

const lineage = 16

// commit succeeds only if no manifest with the same number exists. // Invariants 1, 2, 13
func (d *bucketGeneration) commit(ctx context.Context, m *manifest) error {
	d.store.remember(nil)
	id := randomName()
	m.Line = append(slices.Clone(m.Line), id)
	m.Line = m.Line[max(0, len(m.Line)-lineage):]
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	for _, name := range []string{"manifest", "publish"} {
		if err := d.store.bucket.step(name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.outcomeUnknown = true
	err = d.store.bucket.o.Create(ctx, d.store.manifestKey(m.Sequence), append(text, '\n'))
	if err != nil {
		err = d.resolve(ctx, m, id, err)
	}
	if err == nil {
		err = d.checkLine(ctx, m, id)
	}
	if err == nil {
		d.outcomeUnknown = false
		d.store.learn(m)
		d.store.abortUploads(ctx, d.store.bucket.knownUploads(), m.Sequence, d.store.mine)
	}
	return err
}

// resolve is called after a commit has failed, and finds out whether the commit took effect nevertheless. The parameter
// cause is the error of the commit. The last ID in the stored manifest is the ID of the commit that stored it.
func (d *bucketGeneration) resolve(ctx context.Context, m *manifest, id string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), objects.Patience)
	defer cancel()
	there, err := d.store.read(ctx, m.Sequence)
	switch {
	case err == nil && there.Line[len(there.Line)-1] == id:
		return nil // an earlier request stored it, and only the answer was lost
	case err == nil, errors.Is(err, fs.ErrNotExist) && errors.Is(cause, objects.ErrTaken):
		d.outcomeUnknown = false
		return fmt.Errorf("%w: another process committed generation %d", state.ErrMoved, m.Sequence)
	case errors.Is(err, fs.ErrNotExist):
		return cause
	}
	return errors.Join(cause, err)
}

// checkLine checks that the newest manifest is m or descends from m. If it does not, m has no effect, and checkLine
// returns [state.ErrMoved].
//
// Example: this process was suspended while other processes committed. They stored a manifest with the number of m, and
// later removed that manifest. Then this process could store m under the same number, although the stream has newer
// generations.
func (d *bucketGeneration) checkLine(ctx context.Context, m *manifest, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), objects.Patience)
	defer cancel()
	newest, err := d.store.newest(ctx)
	if err != nil || newest == m.Sequence {
		return err
	}
	now, err := d.store.read(ctx, newest)
	if err == nil && !slices.Contains(now.Line, id) {
		d.outcomeUnknown = false
		return fmt.Errorf("%w: the stream is at generation %d", state.ErrMoved, newest)
	}
	return err
}

// discard removes the stored files, unless the outcome of the commit is unknown. In that case, a later call of tidy
// finds out whether a manifest names the files.
func (d *bucketGeneration) discard() error {
	d.store.remember(nil)
	if d.outcomeUnknown || len(d.stored) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardWithin)
	defer cancel()
	if err := d.store.bucket.removeAll(ctx, d.stored); err != nil {
		d.store.bucket.log.Debug("unused objects are left for a later cleanup", "bucket", d.store.where(), "error", err)
	}
	d.stored = nil
	return nil
}

const discardWithin = 5 * time.Second

type upload struct {
	*os.File
	draft *bucketGeneration
	dir   string
}

func (u *upload) finish(ctx context.Context, f *file) error {
	defer u.abandon()
	f.dir = u.dir
	var err error
	if f.Size, err = u.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	r, err := pqfile.NewParquetReader(io.NewSectionReader(u.File, 0, f.Size))
	if err != nil {
		return fmt.Errorf("verify %s: %w", f.key(), err)
	}
	if r.NumRows() != f.Rows {
		return fmt.Errorf("verify %s: the file has %d rows, not %d", f.key(), r.NumRows(), f.Rows)
	}
	if f.ranges, err = encode.Ranges(r, f.texts); err != nil {
		return fmt.Errorf("verify %s: %w", f.key(), err)
	}
	d := u.draft
	d.mu.Lock()
	d.stored = append(d.stored, f.key())
	d.mu.Unlock()
	return d.store.bucket.o.Put(ctx, f.key(), io.NewSectionReader(u.File, 0, f.Size), f.Size)
}

func (u *upload) abandon() {
	_ = u.Close()
	_ = os.Remove(u.Name()) // usually it is already removed
}
