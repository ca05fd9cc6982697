package open

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
	"github.com/penstock-data/penstock/state/retry"
)

// stores are the state stores that this process uses. Each is opened only once.
type stores struct {
	mu  sync.Mutex
	all map[config.State]state.Store
}

// State returns the state store of a configuration. It stays open until the command ends.
func (o *Opener) State(c *config.Config) state.Store {
	at := c.State
	at.At = config.Pos{} // the position in the file does not matter
	o.stores.mu.Lock()
	defer o.stores.mu.Unlock()
	if s, open := o.stores.all[at]; open {
		return s
	}
	if o.stores.all == nil {
		o.stores.all = map[config.State]state.Store{}
	}
	o.stores.all[at] = o.openState(c, at)
	return o.stores.all[at]
}

func (o *Opener) openState(c *config.Config, at config.State) state.Store {
	if at.URL != "" {
		return postgres.New(postgres.Options{
			URL: at.URL.Reveal(), Keys: at.Key.Reveal(), Jobs: queue.Jobs{}, Life: o.Life, Log: o.Log,
			Connections: o.Connections.forState(c, o.Kinds), Listen: o.Connections.Listen,
		})
	}
	f := &state.Folder{Dir: at.Dir, Keys: at.Key.Reveal()}
	if at.Keyring {
		f.Ring = state.Keyring{}
	}
	return f
}

// close closes all stores.
func (s *stores) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, one := range s.all {
		errs = append(errs, one.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// HintKey is the hint for creating a key of a state database.
const HintKey = "create a key with `age-keygen -o state.key`, and set it with `state: {path: postgres://…, key: \"${file:state.key}\"}` or PENSTOCK_STATE_KEY, the same for every process"

// StateTrouble adds a hint to an error of the state. A database that does not answer is no fault of the configuration.
func StateTrouble(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case postgres.Unavailable(err):
		// Cause: the state database does not answer
		return &failure.Error{Err: err, Hint: "run again when the database answers; committed data is safe", Code: failure.ExitPartial}
	case errors.Is(err, postgres.ErrUnmigrated):
		// Cause: the state database lacks tables, or has tables of an older version
		return failure.Usage("run `penstock migrate` with a role that may create tables", "%w", err)
	case errors.Is(err, postgres.ErrPooled):
		// Cause: a connection pooler is between penstock and the state database
		return failure.Usage("use the address of the database itself in `state:` for `penstock migrate`; all other commands work through the pooler", "%w", err)
	case errors.Is(err, state.ErrNewer):
		// Cause: the state has tables of a newer version
		return failure.Usage("a newer version of penstock has upgraded the state: install that version here too", "%w", err)
	case errors.Is(err, postgres.ErrNoKey):
		// Cause: tokens must be stored in the state database, and there is no key to encrypt them
		return failure.Usage(HintKey, "%w", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, state.ErrExposed):
		// Cause: the state folder cannot be written, or other users can write to it
		return failure.Usage("let penstock write to the folder that `state:` in the configuration sets", "%w", err)
	}
	// Cause: any other error of the state
	return failure.Usage("let penstock write to the folder or database that `state:` in the configuration sets", "%w", err)
}

// stateWait is how long a daemon waits for its state database when it starts. systemd waits 90 seconds for a service.
const stateWait = time.Minute

// AwaitState waits until the state database answers. It returns an error if the database does not answer for a minute,
// or if this program cannot use it. If a lifetime of leases is given, AwaitState waits for three times this lifetime
// instead of a minute.
func AwaitState(ctx context.Context, s state.Store, life time.Duration) error {
	db, ok := s.(*postgres.Store)
	if !ok {
		return nil
	}
	tries := retry.Policy{First: 200 * time.Millisecond, Longest: 5 * time.Second, Total: cmp.Or(3*life, stateWait)}.Begin() // Invariant 15
	for {
		err := db.Ping(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !postgres.Unavailable(err), !tries.Again(ctx):
			return StateTrouble(err)
		}
	}
}

// StateHost returns where a state database is, without user and password.
func StateHost(c *config.Config) string {
	u, err := url.Parse(c.State.URL.Reveal())
	if err != nil {
		return "the state database"
	}
	return u.Scheme + "://" + u.Host + "/" + strings.TrimPrefix(u.Path, "/")
}

// Journal opens the journal of the state. Only one daemon at a time may use the journal of a state
// folder.
func (o *Opener) Journal(ctx context.Context, c *config.Config) (state.Journal, error) {
	j, err := o.State(c).OpenJournal(ctx)
	switch {
	case err == nil, errors.Is(err, state.ErrLocked), errors.Is(err, syscall.ENOSPC):
		return j, err
	}
	return nil, StateTrouble(err)
}
