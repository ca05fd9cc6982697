package state

import (
	"context"
	"time"
)

// Store is where one or many processes keep what they have to remember beside
// the destinations: a folder of one machine ([Folder]), or a database that many
// share (state/postgres). Package statetest says what either must do.
//
// Opening one costs nothing until something of it is used. It is safe for
// concurrent use.
type Store interface {
	// OpenInbox opens the inbox for writing. It returns [ErrLocked], wrapped, where
	// only one process can have it and another does.
	OpenInbox(ctx context.Context, o InboxOptions) (Inbox, error)
	// ReadInbox opens the inbox for reading. It returns [fs.ErrNotExist], wrapped,
	// where there is none.
	ReadInbox(ctx context.Context) (Inbox, error)
	// OpenJournal opens the journal for writing, with the errors of OpenInbox.
	OpenJournal(ctx context.Context) (Journal, error)
	// OpenUnits opens the ledger of units for writing.
	OpenUnits(ctx context.Context) (Ledger, error)
	// ReadUnits opens it for reading. It returns [fs.ErrNotExist], wrapped, where there
	// is none.
	ReadUnits(ctx context.Context) (Ledger, error)
	// OpenSources opens what is kept of sources for writing. It returns [ErrLocked],
	// wrapped, where only one process can and another does for long.
	OpenSources(ctx context.Context) (Sources, error)
	// ReadSources opens it for reading. It returns [fs.ErrNotExist], wrapped, where
	// there is nothing.
	ReadSources(ctx context.Context) (Sources, error)
	// Lease makes this process the only one that works on a source of a pipeline,
	// or on all of them where source is "". It waits for up to wait, and then returns
	// [ErrLocked], wrapped, with the holder's name. // Invariant 13
	Lease(ctx context.Context, pipeline, source string, wait time.Duration) (Lease, error)
	// Notes are the small texts.
	Notes() Notes
	// Vault keeps the tokens.
	Vault() *Vault
	// Now is the time of day for all that share the store, as nearly as this process can
	// tell: what is stored and compared goes by it. It asks nobody. Where that is the
	// clock of another machine, it is this one's until something of the store was used.
	Now() time.Time
	// Close gives up what the store itself has open. What was opened through it is
	// closed before.
	Close() error
}

// Lease is the right to be the only one who works on something. The destination's
// own fence stays the authority: a lease spares work, and never makes a commit
// lawful. // Invariant 13
type Lease interface {
	// Token grows with each holder of the same thing; 0 where the operating system
	// keeps the lease, which no process outlives.
	Token() int64
	// Lost is closed once the lease has ended without having been given back: who
	// still works must stop. It is nil where that cannot be.
	Lost() <-chan struct{}
	// Release gives the lease back. Doing so twice is fine.
	Release() error
}

// Inbox keeps webhook deliveries from the moment they are acknowledged until
// every destination has their effect. Events of all sources stand in one order,
// that of their ordinals, and appear in it: who has seen an ordinal has been able
// to see all before. It is safe for concurrent use.
type Inbox interface {
	Intake
	EventReader
	EventKeeper
	// Close waits for the deliveries that are being written. Doing so twice is fine.
	Close() error
}

// Intake is the side of an inbox that takes deliveries: see [InboxFile] for what
// each method promises.
type Intake interface {
	Append(ctx context.Context, e Event) (Appended, error)
	Capture(ctx context.Context, e Event) error
	Captures(ctx context.Context, source string) ([]Event, error)
	Forget(ctx context.Context, source string, through int64) error
}

// EventReader is the side of an inbox that shows what is kept.
type EventReader interface {
	Events(ctx context.Context, source string, after int64, limit int) ([]Event, error)
	DeadLetters(ctx context.Context, source string, after int64, limit int) ([]DeadLetter, error)
	Event(ctx context.Context, ordinal int64) (DeadLetter, error)
	Standings(ctx context.Context) ([]SourceBacklog, error)
}

// EventKeeper is the side of an inbox for whoever applies its events.
type EventKeeper interface {
	Trim(ctx context.Context, source string, through int64) error
	Quarantine(ctx context.Context, ordinal int64, reason string) error
	Again(ctx context.Context, ordinal int64) (int64, error)
	Quota() int64
}

// Journal is the daemons' account of what was due and what became of it: every
// slot of a schedule exactly once, which pipelines are paused, and the reports of
// the last runs. It is no authority on data: that is each destination. What is
// written is durable when a call returns. It is safe for concurrent use.
type Journal interface {
	Schedule
	SlotBook
	RunBook
	AuditBook
	Close() error
}

// Schedule is where the schedules of pipelines stand: see [JournalFile].
type Schedule interface {
	Seen(ctx context.Context, pipeline, schedule string, now time.Time) (time.Time, error)
	Pause(ctx context.Context, pipeline string, at time.Time) error
	Paused(ctx context.Context, pipeline string) (time.Time, error)
}

// SlotBook has one record for each slot. // Invariant 18
type SlotBook interface {
	AddSlots(ctx context.Context, pipeline string, through time.Time, slots []SlotRecord) (added []SlotRecord, err error)
	// SetSlot replaces the record of a slot that there is, and keeps what is said of
	// its runs with it: all of it is in, or none.
	SetSlot(ctx context.Context, s SlotRecord, runs ...RunRecord) error
	OpenSlots(ctx context.Context, pipeline string) ([]SlotRecord, error)
	// Orphans are the open slots of a process that is gone: from now on they are the
	// caller's. There are none where one process has the journal.
	Orphans(ctx context.Context, pipeline string) ([]SlotRecord, error)
	Slots(ctx context.Context, pipeline string, limit int) ([]SlotRecord, error)
}

// RunBook has the reports of the last runs.
type RunBook interface {
	// KeepRun records a run, or what has become of one: of a run that another process
	// has gone on with it changes nothing.
	KeepRun(ctx context.Context, r RunRecord) error
	BreakRuns(ctx context.Context, why string) error
	Runs(ctx context.Context, pipeline, before string, limit int) ([]RunRecord, error)
	Run(ctx context.Context, run string) (RunRecord, bool, error)
}

// AuditBook has what people did at daemons, the last of it: see [AuditRecord].
type AuditBook interface {
	KeepAudit(ctx context.Context, r AuditRecord) error
	Audit(ctx context.Context, offset, limit int) (all []AuditRecord, total int, err error)
}

// Notes are small texts by name, such as what was alerted and the schemes that
// were learned. None of them is a secret: those are a [Vault]'s.
type Notes interface {
	// Note returns a text, nil where there is none.
	Note(ctx context.Context, name string) ([]byte, error)
	// SetNote puts text in the place of was, which is nil where there should be none,
	// and returns [ErrMoved], wrapped, if something else is there by now. A nil text
	// takes the note out. It is durable when SetNote returns.
	SetNote(ctx context.Context, name string, was, text []byte) error
	// NoteNames are the names of the notes that begin so, sorted.
	NoteNames(ctx context.Context, prefix string) ([]string, error)
}

var (
	_ Inbox   = (*InboxFile)(nil)
	_ Journal = (*JournalFile)(nil)
	_ Ledger  = (*UnitsFile)(nil)
	_ Lease   = (*Lock)(nil)
)
