package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/state"
)

// host identifies a machine or container that shares a state database with others. It needs both fields: machines that
// are copies of one image may have the same id, and machines with different ids may have the same name.
type host struct {
	Name    string `json:"host"`
	Machine string `json:"machine,omitempty"` // hash of the machine id; "" if the machine has no id
}

// thisHost returns the host that this process runs on.
func thisHost() host {
	h := host{Name: "unknown host"}
	if name, err := os.Hostname(); err == nil && name != "" {
		h.Name = name
	}
	if id, err := readUpTo("/etc/machine-id", 1<<10); err == nil && len(bytes.TrimSpace(id)) > 0 {
		sum := sha256.Sum256(append([]byte("penstock "), bytes.TrimSpace(id)...)) // the id itself is confidential
		h.Machine = hex.EncodeToString(sum[:8])
	}
	return h
}

// owner is what the state database stores about the owner of a path.
type owner struct {
	host
	Since time.Time `json:"since"`
}

// elsewhereError means that another host owns the path of a destination.
type elsewhereError struct {
	destination, shown string
	owner              owner
	here               host
}

// Error names both hosts.
func (e *elsewhereError) Error() string {
	here := e.here.Name
	if here == e.owner.Name {
		here = "another machine with that name"
	}
	return fmt.Sprintf("destination %s: %s belongs to host %s, which has written it since %s; this is %s",
		e.destination, e.shown, e.owner.Name, e.owner.Since.Format(time.DateOnly), here)
}

// isElsewhere reports whether err is an elsewhereError.
func isElsewhere(err error) bool {
	_, ok := errors.AsType[*elsewhereError](err)
	return ok
}

// ownerNote returns the name of the note in the state that has the owner of a destination's path. It returns "" if the
// destination needs no owner: if all hosts may write to it, or if the state is not a database that hosts share.
func (a *app) ownerNote(c *config.Config, d config.Destination) string {
	p, err := destinationKindOf(c, d)
	if err != nil || p.onHost == nil || c.State.URL == "" || !p.onHost(d) {
		return ""
	}
	path, _ := filePath(d)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "owner of " + d.Scheme + ":" + path
}

// ownerOf returns the owner of a destination, and the text of the note that has the owner. text is nil if there is no
// owner yet.
func (a *app) ownerOf(ctx context.Context, c *config.Config, note string) (o owner, text []byte, err error) {
	if text, err = a.stateOf(c).Notes().Note(ctx, note); err != nil {
		return o, nil, stateTrouble(err)
	}
	if text != nil {
		if err := json.Unmarshal(text, &o); err != nil {
			return o, nil, fmt.Errorf("read note %s: %w", note, err)
		}
	}
	return o, text, nil
}

// checkHost returns an error if another host owns the path of a destination. On this host, the same path is another file
// or folder. // Invariant 13
func (a *app) checkHost(ctx context.Context, c *config.Config, d config.Destination) error {
	note := a.ownerNote(c, d)
	if note == "" {
		return nil
	}
	_, _, err := a.checkOwner(ctx, c, d, note)
	return err
}

// checkOwner does what checkHost does, and also reports whether this host is the recorded owner.
func (a *app) checkOwner(ctx context.Context, c *config.Config, d config.Destination, note string) (mine bool, text []byte, err error) {
	o, text, err := a.ownerOf(ctx, c, note)
	if err != nil || text == nil {
		return false, text, err
	}
	if here := a.host(); o.host != here {
		e := &elsewhereError{destination: d.Name, shown: d.Shown, owner: o, here: here}
		return false, text, failure.Usage(fmt.Sprintf("run penstock there; to move the destination, stop penstock there, copy the files here and run `penstock state own --to %s`", d.Name), "%w", e)
	}
	return true, text, nil
}

// claim is called before a pipeline writes. If a path that the pipeline writes to has no owner yet, this host becomes its
// owner. If another host owns a path, claim returns an error. // Invariant 13
func (a *app) claim(ctx context.Context, c *config.Config, p config.Pipeline) error {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		d = d.For(p.From[0].Text)
		note := a.ownerNote(c, d)
		if note == "" {
			continue
		}
		mine, _, err := a.checkOwner(ctx, c, d, note)
		if err == nil && !mine {
			err = a.setOwner(ctx, c, note, nil)
		}
		if errors.Is(err, state.ErrMoved) { // another host became the owner in the meantime
			_, _, err = a.checkOwner(ctx, c, d, note)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setOwner makes this host the owner of a path. was is the text of the present note; nil if there is none.
func (a *app) setOwner(ctx context.Context, c *config.Config, note string, was []byte) error {
	text, err := json.Marshal(owner{a.host(), a.stateOf(c).Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	return a.stateOf(c).Notes().SetNote(ctx, note, was, text)
}

// host returns the host that this process runs on, or a.as if it is set.
func (a *app) host() host {
	if a.as != (host{}) {
		return a.as
	}
	return thisHost()
}

func (a *app) stateOwnCmd() *cobra.Command {
	var to selection
	cmd := &cobra.Command{
		Use:   "own",
		Short: "make this host the owner of a local destination",
		Long: `Makes this host the owner of a local destination: a DuckDB or SQLite file, or a folder.
If several hosts share a state database, a local destination belongs to the host that
wrote it first. Other hosts refuse it, because the same path there is another file or a
network file system. Before you run this command, stop penstock on the old host and copy
the files here.`,
		Example: `  penstock state own --to warehouse`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.own(cmd.Context(), to) },
	}
	addDestinationFlag(cmd, &to)
	return cmd
}

// own executes `state own`.
func (a *app) own(ctx context.Context, to selection) error {
	c, d, _, err := a.named(to)
	if err != nil {
		return err
	}
	note := a.ownerNote(c, d)
	if note == "" {
		return failure.Usage("only files and folders have owners, and only if the state is a shared database", "destination %s has no owner", d.Name)
	}
	was, text, err := a.ownerOf(ctx, c, note)
	if err == nil && was.host != a.host() {
		err = a.setOwner(ctx, c, note, text)
	}
	if err != nil {
		return fmt.Errorf("own destination %s: %w", d.Name, err)
	}
	return a.say("%s: owned by %s; previously by %s\n", d.Shown, a.host().Name, cmp.Or(was.Name, "nobody"))
}
