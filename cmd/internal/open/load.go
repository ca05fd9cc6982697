package open

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // time zones for schedules, on machines without a time zone database

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// MaxConfig is one byte more than the largest configuration: enough to see that a file is too large.
const MaxConfig = 1<<20 + 1

// Load reads the configuration for a penstock command that reads sources. If the configuration has commands that list
// sources, Load runs them.
func (o *Opener) Load() (*config.Config, error) { return o.loadWith(false, o.Listed) }

// LoadDestinations reads the configuration for a penstock command that needs no source. It does not run commands that
// list sources, so the result lacks these sources. The command of a ${cmd:…} reference runs again only after
// [outputTime], or after [failureTime] if it failed.
func (o *Opener) LoadDestinations() (*config.Config, error) {
	return o.loadWith(true, func(l config.Listing) ([]config.Row, error) {
		if l.Command != nil {
			return nil, config.ErrUnread
		}
		return o.Listed(l)
	})
}

// LoadNames reads the configuration for a penstock command that needs the names of sources, but no credentials of them.
// If the configuration has commands that list sources, LoadNames runs them.
func (o *Opener) LoadNames() (*config.Config, error) { return o.loadWith(true, o.Listed) }

func (o *Opener) loadWith(places bool, rows func(config.Listing) ([]config.Row, error)) (*config.Config, error) {
	data, err := ReadUpTo(o.File, MaxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failure.Usage("`penstock init` writes one; -c names another file",
			"no configuration: %s does not exist", o.File)
	case err != nil:
		return nil, failure.Usage("", "read configuration %s: %w", o.File, failure.PathCause(err))
	}
	env := newDotenv(o.File)
	c, err := o.Parse(data, env.lookup, places, rows)
	switch unread, missed := env.trouble(); {
	case unread != nil && err != nil:
		return nil, failure.Usage("", "%w\n%w", err, unread)
	case missed:
		return nil, failure.Usage("", "%w", unread)
	}
	return c, err
}

// Parse parses a configuration. It looks up environment variables with env(), and reads a list of sources with rows().
func (o *Opener) Parse(data []byte, env func(string) (string, bool), onlyPlaces bool, rows func(config.Listing) ([]config.Row, error)) (*config.Config, error) {
	cat, err := schemas.Load()
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	var schemes []string
	for _, p := range o.Kinds {
		schemes = append(schemes, p.Scheme)
	}
	run := o.printed
	if onlyPlaces {
		run = o.recalled
	}
	return config.Parse(data, config.Input{
		File:             o.File,
		Env:              env,
		Read:             ReadSecret,
		Run:              run,
		DestinationsOnly: onlyPlaces,
		Rows:             rows,
		Catalogue:        cat.Streams(),
		Schemes:          schemes,
	})
}

// ReadUpTo reads at most n bytes of a file.
func ReadUpTo(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// maxSecret is the largest size of a secret in bytes. Every common credential is smaller, even a private key.
const maxSecret = 64 << 10

// ReadSecret reads the file of a ${file:…} reference. It rejects a file that other users can read, unless a container
// runtime has mounted it.
func ReadSecret(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("no such file")
	case err != nil:
		return "", errors.Unwrap(err)
	case info.IsDir():
		return "", errors.New("is a directory")
	case info.Size() > maxSecret:
		return "", errors.New("too large for a secret")
	case info.Mode().Perm()&0o077 != 0 && !mounted(path):
		return "", fmt.Errorf("other users can read it (mode %04o); run chmod 600 on it", info.Mode().Perm())
	}
	data, err := ReadUpTo(path, maxSecret)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return string(data), nil
}

// mounted reports whether a file is in a folder to which a container runtime or systemd mounts secrets. The user cannot
// change the mode of such a file, because the runtime or systemd chooses it.
func mounted(path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && slices.ContainsFunc([]string{"/run/secrets/", "/var/run/secrets/", "/run/credentials/"}, func(dir string) bool {
		return strings.HasPrefix(abs, dir)
	})
}

// maxNamed is how many names an error lists.
const maxNamed = 20

// PickPipeline returns the pipeline that is named in args. Without a name, it returns the only pipeline.
func PickPipeline(c *config.Config, args []string) (config.Pipeline, error) {
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	return Pick(c.File, "pipeline", "", c.Pipelines, func(p config.Pipeline) string { return p.Name }, name)
}

// PickPipelines returns the pipeline that is named in args. Without a name, it returns all pipelines.
func PickPipelines(c *config.Config, args []string) ([]config.Pipeline, error) {
	if len(args) == 0 {
		return c.Pipelines, nil
	}
	p, err := PickPipeline(c, args)
	return []config.Pipeline{p}, err
}

// Pick returns the element with the given name. If the name is "" and there is only one element, Pick returns that
// element. Otherwise it returns an error that lists the names to choose from. The error shows the given flag, with
// which the user chooses. If the flag is "", the user chooses with an argument.
func Pick[T any](file, what, flag string, all []T, called func(T) string, name string) (T, error) {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = called(one)
		if names[i] == name || name == "" && len(all) == 1 {
			return one, nil
		}
	}
	var none T
	hint := "the " + what + "s are " + strings.Join(names[:min(len(names), maxNamed)], ", ")
	switch {
	case len(names) > maxNamed:
		hint += " and others"
	case len(names) == 1:
		hint = "the only " + what + " is " + names[0]
	}
	switch {
	case flag != "" && strings.Contains(name, "://"): // a url may hold a password, so the message does not contain it // Invariant 5
		return none, failure.Usage(hint, "%s takes the name of a %s here, not a url", flag, what)
	case name != "":
		return none, failure.Usage(hint, "no %s %q in %s%s", what, name, file, config.DidYouMean(name, names))
	case flag != "":
		hint += "; choose with " + flag
	}
	return none, failure.Usage(hint, "name a %s: %s has %d", what, file, len(all))
}

// LoadPipeline reads the configuration and picks the pipeline that is named in args.
func (o *Opener) LoadPipeline(args []string) (*config.Config, config.Pipeline, error) {
	c, err := o.Load()
	if err != nil {
		return nil, config.Pipeline{}, err
	}
	p, err := PickPipeline(c, args)
	return c, p, err
}

// LoadOneSource is like LoadPipeline, for a command that works on one source. If the pipeline has several sources,
// LoadOneSource selects the source with the given name.
func (o *Opener) LoadOneSource(args []string, source string) (*config.Config, config.Pipeline, error) {
	c, p, err := o.LoadPipeline(args)
	if err != nil || !p.MultiSource && source == "" {
		return c, p, err
	}
	from, err := Pick(c.File, "source", "--source", p.From, func(r config.Ref) string { return r.Text }, source)
	if err != nil || !p.MultiSource {
		return c, p, err
	}
	return c, p.ForSource(from.Text), nil
}

// Choose returns the streams of a pipeline that match one of the given patterns. It sets their column limits. If a mask
// needs a key and none is configured, Choose sets the key that is stored with the state.
func (o *Opener) Choose(c *config.Config, p config.Pipeline, only []string) ([]config.Stream, error) {
	streams, err := c.Select(p, only)
	o.LimitColumns(c, p, streams)
	if err != nil || p.MaskKey != "" || !config.MasksKeyed(streams) {
		return streams, err
	}
	key, made, where, err := o.maskKey(c)
	if err != nil {
		return nil, failure.Usage("you can also set your own key with `mask_key:` in the configuration", "mask key of pipeline %s: %w", p.Name, err)
	}
	if made {
		o.Log.Warn("created a key for masks; back it up, or set `mask_key:`, because a new key changes every masked value", "pipeline", p.Name, "file", where)
	}
	for i := range streams {
		streams[i].Rules.MaskKey = schemas.MaskKey(key)
	}
	return streams, nil
}

// maskKey returns the mask key that is stored in the state folder or the state database, and the place where it is
// stored. If there is no key yet, maskKey creates one and reports this.
func (o *Opener) maskKey(c *config.Config) (key string, made bool, where string, err error) {
	if c.State.Dir != "" {
		where = filepath.Join(c.State.Dir, "mask.key")
		key, made, err = state.MaskKey(where)
		return key, made, where, err
	}
	entry := o.State(c).Vault().Entry("mask-key")
	key, made, err = state.MaskKeyIn(entry)
	return key, made, entry.Where(), err
}
