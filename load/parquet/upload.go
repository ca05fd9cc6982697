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

	"github.com/penstock-data/penstock/state"
)

// bucketGeneration is a generation in the making: files that are stored, and that no
// manifest names yet.
type bucketGeneration struct {
	*bucketStore

	mu     sync.Mutex
	made   []string // names of what was stored, or may have been
	unsure bool     // nobody knows whether the commit was made
}

// draft implements [streamStore].
func (s *bucketStore) draft(context.Context) (pendingGeneration, error) {
	return &bucketGeneration{bucketStore: s}, nil
}

// create implements [pendingGeneration]: the file gathers on the disk, so that it can be sent
// a second time.
func (d *bucketGeneration) create(t *table, name string) (output, error) {
	d.finds(nil) // from now on they are others
	f, err := os.CreateTemp(d.scratch, "penstock-parquet-*")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // where that cannot be yet, close does it
	return &upload{File: f, draft: d, dir: d.key + "/" + t.Folder}, nil
}

// assemble implements [pendingGeneration]. All files are stored.
func (d *bucketGeneration) assemble(context.Context, *manifest) error { return nil }

// publish implements [pendingGeneration].
func (d *bucketGeneration) publish(ctx context.Context, m *manifest) error {
	d.locate(m)
	named := map[string]bool{}
	for _, t := range m.Tables {
		for _, f := range m.files(t) {
			named[f.key()] = true
		}
	}
	if err := d.commit(ctx, m); err != nil {
		return err
	}
	d.made = slices.DeleteFunc(d.made, func(key string) bool { return named[key] })
	return nil
}

// locate tells the manifest what it lies on.
func (d *bucketGeneration) locate(m *manifest) { m.shelf, m.dir = d.bucketStore, d.key }

// move implements [pendingGeneration]: a manifest that differs in nothing but the cursor.
func (d *bucketGeneration) move(ctx context.Context, m *manifest) error {
	m.Parent, m.Sequence = m.Sequence, m.Sequence+1
	return d.commit(ctx, m)
}

// lineage is how many commits a manifest remembers by their ids.
const lineage = 16

// commit stores the manifest, if no other follows its parent yet.
// // Invariants 1, 2, 13
func (d *bucketGeneration) commit(ctx context.Context, m *manifest) error {
	d.finds(nil)
	id := randomName()
	m.Line = append(slices.Clone(m.Line), id)
	m.Line = m.Line[max(0, len(m.Line)-lineage):]
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	for _, name := range []string{"manifest", "publish"} {
		if err := d.step(name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.unsure = true
	err = d.o.create(ctx, d.manifestKey(m.Sequence), append(text, '\n'))
	if err != nil {
		err = d.resolve(ctx, m, id, err)
	}
	if err == nil {
		err = d.standing(ctx, m, id)
	}
	if err == nil {
		d.unsure = false
		d.learn(m)
		d.abortUploads(ctx, d.left(), m.Sequence)
	}
	return err
}

// resolve finds out what became of a commit whose answer was no, or was lost:
// the manifest that stands there bears the id of whoever stored it.
func (d *bucketGeneration) resolve(ctx context.Context, m *manifest, id string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	there, err := d.read(ctx, m.Sequence)
	switch {
	case err == nil && there.Line[len(there.Line)-1] == id:
		return nil // a request whose answer was lost had stored it
	case err == nil, errors.Is(err, fs.ErrNotExist) && errors.Is(cause, errTaken):
		d.unsure = false
		return fmt.Errorf("%w: another has committed generation %d", state.ErrMoved, m.Sequence)
	case errors.Is(err, fs.ErrNotExist):
		return cause
	}
	return errors.Join(cause, err)
}

// standing makes sure that the manifest follows the one it was made from. Who was
// stopped for so long that the names above his own were given free again could
// store one there, and nobody would find it.
func (d *bucketGeneration) standing(ctx context.Context, m *manifest, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storePatience)
	defer cancel()
	newest, err := d.newest(ctx)
	if err != nil || newest == m.Sequence {
		return err
	}
	now, err := d.read(ctx, newest)
	if err == nil && !slices.Contains(now.Line, id) {
		d.unsure = false
		return fmt.Errorf("%w: the stream is at generation %d", state.ErrMoved, newest)
	}
	return err
}

// discard implements [pendingGeneration]. Where nobody knows whether the commit was made, its
// files stay: some later tidy knows.
func (d *bucketGeneration) discard() error {
	d.finds(nil)
	if d.unsure || len(d.made) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardWithin)
	defer cancel()
	if err := d.removeAll(ctx, d.made); err != nil {
		d.log.Debug("objects that nobody names are left for later", "bucket", d.where(), "error", err)
	}
	d.made = nil
	return nil
}

// discardWithin bounds how long one who gives up cleans up behind himself.
const discardWithin = 5 * time.Second

// upload is a file on its way into the bucket.
type upload struct {
	*os.File
	draft *bucketGeneration
	dir   string
}

// finish implements [output].
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
		return fmt.Errorf("verify %s: it has %d rows, not %d", f.key(), r.NumRows(), f.Rows)
	}
	if f.ranges, err = rangesOf(r); err != nil {
		return fmt.Errorf("verify %s: %w", f.key(), err)
	}
	d := u.draft
	d.mu.Lock()
	d.made = append(d.made, f.key())
	d.mu.Unlock()
	return d.o.put(ctx, f.key(), io.NewSectionReader(u.File, 0, f.Size), f.Size)
}

// abandon implements [output].
func (u *upload) abandon() {
	_ = u.Close()
	_ = os.Remove(u.Name()) // it mostly is gone already
}
