package open

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Reader is a destination that a command reads. If Source is set, the reader reads only that source's part of the
// destination.
type Reader struct {
	load.Destination
	Name   string
	Config config.Destination
	Kind   Kind
	Conf   *config.Config
	Source string // the source whose rows are read; "" for all
	Shared bool   // several sources share the tables of the destination
}

// Selection is what the command line selects. To is the name of a destination, or NAME@SOURCE; "" means the only
// destination. Source is the name of a source; "" means all sources.
type Selection struct {
	To, Source string
	Sources    bool // the command needs sources as well
	Published  bool // if a destination publishes a copy for readers, and the copy exists, read the copy
}

// find returns the selected destination and source. If To and the source are both wrong, the error names To.
func (q Selection) find(c *config.Config) (d config.Destination, source string, err error) {
	to, source, at := strings.Cut(q.To, "@")
	if strings.Contains(q.To, "://") { // a url is no NAME@SOURCE; Pick refuses it without printing it
		to, source, at = q.To, "", false
	}
	d, err = Pick(c.File, "destination", "--to", c.Destinations, func(d config.Destination) string { return d.Name }, to)
	if err != nil && to != "" {
		return d, "", err
	}
	if at && q.Source != "" && q.Source != source {
		return d, "", failure.Usage("", "--to %s and --source %s contradict each other", q.To, q.Source)
	}
	if !at {
		source = q.Source
	}
	if (at || source != "") && !c.MayRead(source) {
		var names []string
		for _, s := range c.Sources {
			names = append(names, s.Name)
		}
		return d, "", failure.Usage("`penstock sources list` lists them", "no source %q in %s%s", source, c.File, config.DidYouMean(source, names))
	}
	if err != nil {
		return d, "", err
	}
	switch {
	case d.PerSource() && source == "":
		err = failure.Usage(fmt.Sprintf("choose one with --source NAME, or --to %s@SOURCE", d.Name), "destination %s has a separate part for each source", d.Name)
	case source != "" && !d.PerSource() && !c.Shared(d):
		err = failure.Usage(fmt.Sprintf("select the destination with --to %s, without a source", d.Name), "destination %s has the rows of only one source", d.Name)
	}
	return d, source, err
}

// Named returns the configuration, and the selected destination. If a source is selected, Named returns that source's
// part of the destination.
func (o *Opener) Named(q Selection) (c *config.Config, d config.Destination, source string, err error) {
	load := o.LoadDestinations
	if q.Sources {
		load = o.Load
	}
	if c, err = load(); err != nil {
		return c, d, "", err
	}
	d, source, err = q.find(c)
	return c, d.For(source), source, err
}

// Read opens the selected destination and passes it to use().
func (o *Opener) Read(ctx context.Context, q Selection, use func(*Reader) error) error {
	c, d, source, err := o.Named(q)
	if err != nil {
		return err
	}
	return o.readPart(ctx, c, q.place(d), source, use)
}

// place returns the destination to open: the published copy if it is wanted and exists, otherwise d itself. The copy is
// opened only for reading, because a copy to which another program has written is not replaced.
func (q Selection) place(d config.Destination) config.Destination {
	if !q.Published || d.Publish == "" {
		return d
	}
	if _, err := os.Stat(d.Publish); err != nil {
		return d // nothing was published yet
	}
	_, options, some := strings.Cut(d.URL.Reveal(), "?")
	url := d.Scheme + ":" + d.Publish
	if some {
		url += "?" + options
	}
	d.URL, d.Publish, d.ReadOnly = wire.Secret(url), "", true
	return d
}

// absentError says that nothing was loaded into a destination yet.
type absentError struct{ error }

// Unwrap returns what is missing.
func (e *absentError) Unwrap() error { return e.error }

// IsAbsent reports whether err says that nothing was loaded into a destination yet.
func IsAbsent(err error) bool {
	_, absent := errors.AsType[*absentError](err)
	return absent
}

// readPart opens a destination, or the part of a source in it, and passes it to use().
func (o *Opener) readPart(ctx context.Context, c *config.Config, d config.Destination, source string, use func(*Reader) error) error {
	p, err := o.Kinds.Of(c, d)
	if err == nil {
		err = Owners{o, c}.check(ctx, d)
	}
	if err != nil {
		return err
	}
	if p.Absent != nil {
		if err := p.Absent(d); err != nil {
			hint := "`penstock sync` creates and fills it"
			if f, ok := errors.AsType[*failure.Error](err); ok && f.Hint != "" {
				hint = f.Hint
			}
			return failure.Hinted(&absentError{fmt.Errorf("open destination %s: %w", d.Name, err)}, hint)
		}
	}
	open := o.Destination
	if source != "" {
		open = func(ctx context.Context, c *config.Config, d config.Destination) (load.Destination, error) {
			return o.Part(ctx, c, d, source)
		}
	}
	dest, err := open(ctx, c, d)
	if err != nil {
		return err
	}
	err = unanswered(d.Name, use(&Reader{Destination: dest, Name: d.Name, Config: d, Kind: p, Conf: c, Source: source, Shared: c.Shared(d)}))
	return errors.Join(err, dest.Close())
}

// unanswered adds a hint to the error of a server that cannot be reached. Some destinations connect only when they are
// read.
func unanswered(name string, err error) error {
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		return err
	}
	if _, ok := errors.AsType[*failure.Error](err); ok {
		return err
	}
	return failure.Hinted(fmt.Errorf("read destination %s: %w", name, err), "check the destination's url (host, port) and that the server is running")
}

// Ask passes a querier for the destination to use(). It returns an error if the destination does not support SQL.
func (r *Reader) Ask(ctx context.Context, use func(load.Querier) error) error {
	own := *r
	if shared, ok := r.Destination.(*sharedDestination); ok {
		own.Destination = shared.Destination // a handle has only the methods of load.Destination
	}
	if q, ok := own.Destination.(load.Querier); ok {
		return use(q)
	}
	if r.Kind.Querier == nil {
		return failure.Usage("", "destination %s (%s) does not support SQL", r.Name, r.Config.Scheme)
	}
	q, err := r.Kind.Querier(ctx, &own)
	if err != nil {
		return err
	}
	return errors.Join(use(q), q.Close())
}

// All reports whether the reader reads the rows of several sources.
func (r *Reader) All() bool { return r.Shared && r.Source == "" }

// One returns an error if the reader reads the rows of several sources. Some commands need a single source.
func (r *Reader) One() error {
	if !r.All() {
		return nil
	}
	return failure.Usage("choose one with --source NAME; `penstock sources list` lists them", "several sources share the tables of destination %s", r.Name)
}

// Together returns an error if one of several sources is selected. Some commands can only work on all sources of a
// table together.
func (r *Reader) Together(hint string) error {
	if !r.Shared || r.Source == "" {
		return nil
	}
	return failure.Usage(hint, "several sources share the tables of destination %s", r.Name)
}

// Project is like [history.Project]. If the reader reads several sources, the first column names the source of each
// row.
func (r *Reader) Project(ctx context.Context, t schemas.Table, columns []string, keep func(history.Row) bool) (render.Answer, error) {
	if !r.All() || t.Name == load.Changes.Name { // a change of a table belongs to no source
		return history.Project(ctx, r, t, columns, keep)
	}
	t = load.ShareTable(t)
	out, err := history.Project(ctx, r, t, append([]string{schemas.ColSource}, columns...), keep)
	out.Columns[0] = schemas.Field("source", schemas.Text, "")
	return out, err
}

// LoadedTables returns the loaded tables by name, without penstock's own tables.
func (r *Reader) LoadedTables(ctx context.Context) (map[string]schemas.Table, error) {
	all, err := history.Tables(ctx, r)
	if r.Conf.Shared(r.Config) { // the files of a lake have no source column, because the source is in the names of folders
		for name, t := range all {
			all[name] = load.ShareTable(t)
		}
	}
	return all, err
}

// LoadedTable returns one of the loaded tables.
func (r *Reader) LoadedTable(ctx context.Context, name string) (schemas.Table, error) {
	all, err := r.LoadedTables(ctx)
	if err != nil {
		return schemas.Table{}, err
	}
	t, ok := all[name]
	if !ok {
		return t, r.unknownTable(name, all)
	}
	return t, nil
}

func (r *Reader) unknownTable(name string, all map[string]schemas.Table) error {
	meant := config.DidYouMean(strings.ReplaceAll(name, ".", "_"), slices.Sorted(maps.Keys(all))) // users also write the stream's name
	return &failure.Error{
		Err:  fmt.Errorf("no table %q in destination %s%s", name, r.Name, meant),
		Hint: "`penstock docs` lists what is loaded",
		Code: failure.ExitFailed,
	}
}

// Key returns the key of a stream in the destination.
func (r *Reader) Key(pipeline, stream string) state.Key {
	k := state.Key{Pipeline: pipeline, Stream: stream}
	if r.Shared {
		k.Source = r.Source
	}
	return k
}
