package open

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/state"
)

// Host identifies a machine or container that shares a state database with others. Both fields are needed, because
// machines that are copies of one image may have the same id, and machines with different ids may have the same name.
type Host struct {
	Name    string `json:"host"`
	Machine string `json:"machine,omitempty"` // hash of the machine id; "" if the machine has no id
}

// thisHost returns the host that this process runs on.
func thisHost() Host {
	h := Host{Name: "unknown host"}
	if name, err := os.Hostname(); err == nil && name != "" {
		h.Name = name
	}
	if id, err := ReadUpTo("/etc/machine-id", 1<<10); err == nil && len(bytes.TrimSpace(id)) > 0 {
		sum := sha256.Sum256(append([]byte("penstock "), bytes.TrimSpace(id)...)) // the id itself is confidential
		h.Machine = hex.EncodeToString(sum[:8])
	}
	return h
}

// Owner is what the state database stores about the owner of a path.
type Owner struct {
	Host
	Since time.Time `json:"since"`
}

// ElsewhereError means that another host owns the path of a destination.
type ElsewhereError struct {
	destination, shown string
	Owner              Owner
	here               Host
}

// Error names both hosts.
func (e *ElsewhereError) Error() string {
	here := e.here.Name
	if here == e.Owner.Name {
		here = "another machine with the same name"
	}
	return fmt.Sprintf("destination %s: %s belongs to host %s, which has written it since %s; this host is %s",
		e.destination, e.shown, e.Owner.Name, e.Owner.Since.Format(time.DateOnly), here)
}

// IsElsewhere reports whether err is an [*ElsewhereError].
func IsElsewhere(err error) bool {
	_, ok := errors.AsType[*ElsewhereError](err)
	return ok
}

// Owners decides which hosts own the files and folders of a configuration's destinations. The owners are stored in the
// state.
type Owners struct {
	Opener *Opener
	Conf   *config.Config
}

// note returns the name of the note that names the owner of a destination's path. Notes are part of the state. If
// the destination needs no owner, note returns "". A destination needs no owner if all hosts may write to it, or
// if the state is not a database that hosts share.
func (o Owners) note(d config.Destination) string {
	p, err := o.Opener.Kinds.Of(o.Conf, d)
	if err != nil || p.OnHost == nil || o.Conf.State.URL == "" || !p.OnHost(d) {
		return ""
	}
	path, _ := FilePath(d)
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return "owner of " + d.Scheme + ":" + path
}

// ownerOf returns the owner of a destination, and the text of the note that names the owner. If there is no owner yet,
// the returned text is nil.
func ownerOf(ctx context.Context, s state.Store, note string) (of Owner, text []byte, err error) {
	if text, err = s.Notes().Note(ctx, note); err != nil {
		return of, nil, StateTrouble(err)
	}
	if text != nil {
		if err := json.Unmarshal(text, &of); err != nil {
			return of, nil, fmt.Errorf("read note %s: %w", note, err)
		}
	}
	return of, text, nil
}

// check returns an error if another host owns the path of a destination. On this host, the same path is another file or
// folder. // Invariant 13
func (o Owners) check(ctx context.Context, d config.Destination) error {
	note := o.note(d)
	if note == "" {
		return nil
	}
	_, err := o.mine(ctx, d, note)
	return err
}

// mine does what check does, and also reports whether this host is the recorded owner.
func (o Owners) mine(ctx context.Context, d config.Destination, note string) (bool, error) {
	of, text, err := ownerOf(ctx, o.Opener.State(o.Conf), note)
	if err != nil || text == nil {
		return false, err
	}
	if here := o.Opener.Host(); of.Host != here {
		e := &ElsewhereError{destination: d.Name, shown: d.Shown, Owner: of, here: here}
		// Cause: another host wrote the file or folder of the destination
		return false, failure.Usage(fmt.Sprintf("run penstock there; to move the destination, stop penstock there, copy the files here and run `penstock state own --to %s`", d.Name), "%w", e)
	}
	return true, nil
}

// Claim is called before a pipeline writes. If a path that the pipeline writes to has no owner yet, this host becomes
// its owner. If another host owns a path, Claim returns an error. // Invariant 13
func (o Owners) Claim(ctx context.Context, p config.Pipeline) error {
	for _, to := range p.To {
		d, _ := o.Conf.Destination(to.Text)
		d = d.For(p.From[0].Text)
		note := o.note(d)
		if note == "" {
			continue
		}
		mine, err := o.mine(ctx, d, note)
		if err == nil && !mine {
			err = o.set(ctx, note, nil)
		}
		if errors.Is(err, state.ErrMoved) { // another host became the owner in the meantime
			_, err = o.mine(ctx, d, note)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// set makes this host the owner of a path. It replaces the present note. The caller passes the text of this note,
// or nil if there is no note yet.
func (o Owners) set(ctx context.Context, note string, was []byte) error {
	s := o.Opener.State(o.Conf)
	text, err := json.Marshal(Owner{o.Opener.Host(), s.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	return s.Notes().SetNote(ctx, note, was, text)
}

// TakeOver makes this host the owner of a destination's path, and returns the previous owner.
func (o Owners) TakeOver(ctx context.Context, d config.Destination) (was Owner, err error) {
	note := o.note(d)
	if note == "" {
		return was, failure.Usage("only files and folders have owners, and only if the state is a shared database", "destination %s has no owner", d.Name)
	}
	was, text, err := ownerOf(ctx, o.Opener.State(o.Conf), note)
	if err == nil && was.Host != o.Opener.Host() {
		err = o.set(ctx, note, text)
	}
	if err != nil {
		return was, fmt.Errorf("own destination %s: %w", d.Name, err)
	}
	return was, nil
}

// Host returns the host that this process runs on, or o.As if it is set.
func (o *Opener) Host() Host {
	if o.As != (Host{}) {
		return o.As
	}
	return thisHost()
}
