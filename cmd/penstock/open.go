package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // zones of schedules, on machines that have none installed

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/schemas"
)

// maxConfig is one byte more than a configuration may have: enough to see that
// it is too large, and no more.
const maxConfig = 1<<20 + 1

// load reads the configuration.
func (a *app) load() (*config.Config, error) {
	data, err := readUpTo(a.config, maxConfig)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usage("name a file with -c, or copy the worked example pipelines.yaml of penstock's repository; it runs against `penstock sandbox`",
			"no configuration: %s does not exist", a.config)
	case err != nil:
		return nil, usage("", "read configuration: %w", err)
	}
	cat, err := schemas.Load()
	if err != nil {
		return nil, fmt.Errorf("load catalogue: %w", err)
	}
	var schemes []string
	for _, p := range places() {
		schemes = append(schemes, p.scheme)
	}
	return config.Parse(data, config.Input{
		File:      a.config,
		Env:       os.LookupEnv,
		Read:      readSecret,
		Catalogue: cat.Streams(),
		Schemes:   schemes,
	})
}

func readUpTo(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

// maxSecret is more than any credential, private keys included.
const maxSecret = 64 << 10

// readSecret reads a file that a ${file:…} names. One that others on this
// machine may read is no secret, but where a container's runtime has put it.
func readSecret(path string) (string, error) {
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
		return "", fmt.Errorf("others may read it (mode %04o); chmod 600 it", info.Mode().Perm())
	}
	data, err := readUpTo(path, maxSecret)
	if err != nil {
		return "", errors.Unwrap(err)
	}
	return string(data), nil
}

// mounted reports whether a runtime has put path there, with modes of its own.
func mounted(path string) bool {
	abs, err := filepath.Abs(path)
	return err == nil && (strings.HasPrefix(abs, "/run/secrets/") || strings.HasPrefix(abs, "/var/run/secrets/"))
}

// pipeline is the one that args name, or the only one there is.
func pickPipeline(c *config.Config, args []string) (config.Pipeline, error) {
	if len(args) == 0 {
		if len(c.Pipelines) == 1 {
			return c.Pipelines[0], nil
		}
		return config.Pipeline{}, usage("the pipelines are "+strings.Join(pipelineNames(c), ", "), "which pipeline? %s has %d", c.File, len(c.Pipelines))
	}
	p, ok := c.Pipeline(args[0])
	if !ok {
		return p, usage("the pipelines are "+strings.Join(pipelineNames(c), ", "), "no pipeline %q in %s", args[0], c.File)
	}
	return p, nil
}

func pipelineNames(c *config.Config) []string {
	var names []string
	for _, p := range c.Pipelines {
		names = append(names, p.Name)
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
