package state

import (
	"context"
	"time"
)

// Store is where processes keep state besides the destinations: a folder of one machine ([Folder]), or a database
// shared by many machines (state/postgres). Package statetest defines the required behaviour.
//
// Creating a Store costs nothing before its first use. It is safe for concurrent use.
type Store interface {
	// OpenInbox opens the inbox for writing. It returns [ErrLocked], wrapped, if only one process can hold it and
	// another one does.
	OpenInbox(ctx context.Context, o InboxOptions) (Inbox, error)
	// ReadInbox opens the inbox for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadInbox(ctx context.Context) (Inbox, error)
	// OpenJournal opens the journal for writing, with the errors of OpenInbox.
	OpenJournal(ctx context.Context) (Journal, error)
	// OpenUnits opens the store of units for writing.
	OpenUnits(ctx context.Context) (UnitStore, error)
	// ReadUnits opens the store of units for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadUnits(ctx context.Context) (UnitStore, error)
	// OpenSources opens the state of sources for writing. It returns [ErrLocked], wrapped, if only one process can
	// hold it and another one does for long.
	OpenSources(ctx context.Context) (Sources, error)
	// ReadSources opens the state of sources for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadSources(ctx context.Context) (Sources, error)
	// Lease gives this process the exclusive right to work on a source of a pipeline, or on the pipeline as a whole
	// if source is "". If another process holds the lease longer than wait, Lease returns [ErrLocked], wrapped,
	// with the holder's name.
	// Invariant 13
	Lease(ctx context.Context, pipeline, source string, wait time.Duration) (Lease, error)
	// Notes returns the stored notes, which are small texts.
	Notes() Notes
	// Vault returns the vault of tokens.
	Vault() *Vault
	// Now returns the current time by the clock that all users of the store share, as accurately as this process
	// knows that clock. Stored times are by this clock. Now makes no request. If the clock is that of another
	// machine, Now returns this machine's time until the first use of the store.
	Now() time.Time
	// Close closes the store. The caller must first close what it has opened through the store.
	Close() error
}

// Lease is the exclusive right to work on something. A lease only avoids useless work, because the destination's fence
// decides whether a commit is allowed. // Invariant 13
type Lease interface {
	// Token returns a number that grows with each holder of the same lease. The number is 0 if the operating system
	// manages the lease, because then the lease ends with its process.
	Token() int64
	// Lost returns a channel that is closed if the lease ends without Release. The holder must then stop its work.
	// The channel is nil if this cannot happen.
	Lost() <-chan struct{}
	// Release releases the lease. It may be called twice.
	Release() error
}

// Inbox stores webhook deliveries from their acknowledgement until all destinations have applied them. The events of
// all sources are in one order, by their ordinals, and become visible in this order: a reader that sees an event can
// see all earlier ones. It is safe for concurrent use.
type Inbox interface {
	Intake
	EventReader
	EventKeeper
	// Close waits for the deliveries that are being written. It may be called twice.
	Close() error
}

// Intake is the receiving side of an inbox. See [InboxFile] for its methods.
type Intake interface {
	Append(ctx context.Context, e Event) (Appended, error)
	Capture(ctx context.Context, e Event) error
	Captures(ctx context.Context, source string) ([]Event, error)
	Forget(ctx context.Context, source string, through int64) error
}

// EventReader is the reading side of an inbox. See [InboxFile] for its methods.
type EventReader interface {
	Events(ctx context.Context, source string, after int64, limit int) ([]Event, error)
	DeadLetters(ctx context.Context, source string, after int64, limit int) ([]DeadLetter, error)
	Event(ctx context.Context, ordinal int64) (DeadLetter, error)
	Backlogs(ctx context.Context) ([]SourceBacklog, error)
}

// EventKeeper is the side of an inbox for the process that applies its events. See [InboxFile] for its methods.
type EventKeeper interface {
	Trim(ctx context.Context, source string, through int64) error
	Quarantine(ctx context.Context, ordinal int64, reason string) error
	AppendAgain(ctx context.Context, ordinal int64) (int64, error)
	Quota() int64
}

// Journal is the daemons' record of due slots and their outcomes, of paused pipelines, and of the reports of the last
// runs. It has each slot of a schedule exactly once. For data, the destinations are authoritative, not the journal.
// Writes are durable when a call returns. A Journal is safe for concurrent use.
type Journal interface {
	Schedule
	SlotStore
	RunStore
	AuditStore
	Close() error
}

// Schedule stores the progress of the pipelines' schedules: see [JournalFile].
type Schedule interface {
	Seen(ctx context.Context, pipeline, schedule string, now time.Time) (time.Time, error)
	Pause(ctx context.Context, pipeline string, at time.Time) error
	Paused(ctx context.Context, pipeline string) (time.Time, error)
}

// SlotStore has one record for each slot. // Invariant 18
type SlotStore interface {
	AddSlots(ctx context.Context, pipeline string, through time.Time, slots []SlotRecord) (added []SlotRecord, err error)
	// SetSlot replaces the record of an existing slot and records its runs, in one transaction.
	SetSlot(ctx context.Context, s SlotRecord, runs ...RunRecord) error
	OpenSlots(ctx context.Context, pipeline string) ([]SlotRecord, error)
	// Orphans assigns the open slots of dead processes to the caller, and returns them. There are none if only one
	// process can have the journal open.
	Orphans(ctx context.Context, pipeline string) ([]SlotRecord, error)
	Slots(ctx context.Context, pipeline string, limit int) ([]SlotRecord, error)
}

// RunStore has the reports of the last runs.
type RunStore interface {
	// KeepRun records a run or its outcome. It changes nothing if another process has continued the run.
	KeepRun(ctx context.Context, r RunRecord) error
	BreakRuns(ctx context.Context, why string) error
	Runs(ctx context.Context, pipeline, before string, limit int) ([]RunRecord, error)
	Run(ctx context.Context, run string) (RunRecord, bool, error)
}

// AuditStore has the last actions of users on daemons: see [AuditRecord].
type AuditStore interface {
	KeepAudit(ctx context.Context, r AuditRecord) error
	Audit(ctx context.Context, offset, limit int) (all []AuditRecord, total int, err error)
}

// Notes are small texts by name, for example sent alerts and learned signature schemes. They contain no secrets:
// those are in a [Vault].
type Notes interface {
	// Note returns a text, or nil if there is none.
	Note(ctx context.Context, name string) ([]byte, error)
	// SetNote stores text if the stored note is still equal to was, where nil means that there is no note. Otherwise
	// it returns [ErrMoved], wrapped. A nil text removes the note. The change is durable when SetNote returns.
	SetNote(ctx context.Context, name string, was, text []byte) error
	// NoteNames returns the names of the notes with this prefix, sorted.
	NoteNames(ctx context.Context, prefix string) ([]string, error)
}

var (
	_ Inbox     = (*InboxFile)(nil)
	_ Journal   = (*JournalFile)(nil)
	_ UnitStore = (*UnitsFile)(nil)
	_ Lease     = (*Lock)(nil)
)
