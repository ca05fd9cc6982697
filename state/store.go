package state

import (
	"context"
	"time"
)

// Store holds the state that the destinations do not store. It is a folder of one machine ([Folder]), or a database
// that many machines share (state/postgres). The tests in package statetest define the required behavior.
//
// A Store opens no files and no connections before its first use. It is safe for concurrent use.
type Store interface {
	// OpenInbox opens the inbox for writing. Some stores allow only one process to write the inbox. If another process
	// already has the inbox open for writing, such a store returns [ErrLocked], wrapped.
	OpenInbox(ctx context.Context, o InboxOptions) (Inbox, error)
	// ReadInbox opens the inbox for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadInbox(ctx context.Context) (Inbox, error)
	// OpenJournal opens the journal for writing. It returns the same errors as OpenInbox.
	OpenJournal(ctx context.Context) (Journal, error)
	// ReadJournal opens the journal for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadJournal(ctx context.Context) (JournalReader, error)
	// OpenUnits opens the store of units for writing.
	OpenUnits(ctx context.Context) (UnitStore, error)
	// ReadUnits opens the store of units for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadUnits(ctx context.Context) (UnitStore, error)
	// OpenSources opens the state of sources for writing. Some stores allow only one process to write it. If another
	// process holds it for seconds, such a store returns [ErrLocked], wrapped.
	OpenSources(ctx context.Context) (Sources, error)
	// ReadSources opens the state of sources for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadSources(ctx context.Context) (Sources, error)
	// OpenHistory opens the history of runs for writing.
	OpenHistory(ctx context.Context) (History, error)
	// ReadHistory opens the history of runs for reading. It returns [fs.ErrNotExist], wrapped, if there is none.
	ReadHistory(ctx context.Context) (History, error)
	// Lease gives this process the exclusive right to work on a source of a pipeline. If source is "", the right is for
	// the whole pipeline. If another process holds the lease for longer than the given time, Lease returns [ErrLocked],
	// wrapped. The error names the holder. Invariant 13
	Lease(ctx context.Context, pipeline, source string, wait time.Duration) (Lease, error)
	// Notes returns the store of notes.
	Notes() Notes
	// Vault returns the store of secrets.
	Vault() *Vault
	// Now returns the current time of the clock that all users of the store share. All stored times come from this clock.
	// Now makes no request, so the time is an estimate. If the store uses the clock of another machine, Now does not know
	// that clock before the first use of the store. Until then, Now returns this machine's time.
	Now() time.Time
	// Close closes the store. The caller must first close everything that it opened through the store.
	Close() error
}

// Lease is the exclusive right to work on something. It only prevents useless work. The destination decides whether a
// commit is allowed, by a sequence number. // Invariant 13
type Lease interface {
	// Token returns a number. Each new holder of the lease gets a higher number. If the operating system manages the
	// lease, Token returns 0.
	Token() int64
	// Lost returns a channel that is closed if the lease ends without Release. The holder must then stop its work. If a
	// lease cannot end in this way, the channel is nil.
	Lost() <-chan struct{}
	// Release releases the lease. It may be called twice.
	Release() error
}

// Inbox stores webhook deliveries from their acknowledgement until all destinations have applied them. The events of
// all sources become visible in the order of their ordinals. So a reader that sees an event can also see all earlier
// events. An Inbox is safe for concurrent use.
type Inbox interface {
	Intake
	EventReader
	EventKeeper
	// Close waits until pending deliveries are written. It may be called twice.
	Close() error
}

// Intake has the methods for receiving deliveries. They are described at [InboxFile].
type Intake interface {
	Append(ctx context.Context, e Event) (Appended, error)
	Capture(ctx context.Context, e Event) error
	Captures(ctx context.Context, source string) ([]Event, error)
	Forget(ctx context.Context, source string, lastNumber int64) error
}

// EventReader has the methods for reading events. They are described at [InboxFile].
type EventReader interface {
	Events(ctx context.Context, source string, after int64, limit int) ([]Event, error)
	DeadLetters(ctx context.Context, source string, after int64, limit int) ([]DeadLetter, error)
	Event(ctx context.Context, ordinal int64) (DeadLetter, error)
	Backlogs(ctx context.Context) ([]SourceBacklog, error)
}

// EventKeeper has the methods for the process that applies the events. They are described at [InboxFile].
type EventKeeper interface {
	Trim(ctx context.Context, source string, lastOrdinal int64) error
	Quarantine(ctx context.Context, ordinal int64, reason string) error
	AppendAgain(ctx context.Context, ordinal int64) (int64, error)
	Quota() int64
}

// Journal records due slots and their outcomes, paused pipelines, and the reports of the last runs. Daemons write it.
// The journal has exactly one record for each slot of a schedule. It does not decide where a stream continues: only the
// destinations know what was loaded. When a call returns, its changes are durable. A Journal is safe for concurrent
// use.
type Journal interface {
	Schedule
	SlotStore
	RunStore
	AuditStore
	Close() error
}

// Schedule stores the progress and the pauses of pipelines' schedules. See [JournalFile] for its methods.
type Schedule interface {
	Seen(ctx context.Context, pipeline, schedule string, now time.Time) (time.Time, error)
	Pause(ctx context.Context, pipeline string, start time.Time) error
	Paused(ctx context.Context, pipeline string) (time.Time, error)
}

// SlotStore has one record for each slot. See [JournalFile] for the other methods. // Invariant 18
type SlotStore interface {
	// AddSlots records the slots that are not recorded yet: see [JournalFile.AddSlots]. If a run of an earlier slot of the
	// pipeline has not ended, even in another process, AddSlots skips the new waiting slots, except slots with Patient
	// set. It decides this in the same transaction that adds the slots.
	AddSlots(ctx context.Context, pipeline string, seenUntil time.Time, slots []SlotRecord) (added []SlotRecord, err error)
	// SetSlot replaces the record of an existing slot and records its runs, in one transaction. If the new state is
	// SlotRunning, and another run of the pipeline has not ended, even in another process, SetSlot changes nothing and
	// returns [ErrUnderWay], wrapped.
	SetSlot(ctx context.Context, s SlotRecord, runs ...RunRecord) error
	OpenSlots(ctx context.Context, pipeline string) ([]SlotRecord, error)
	// Orphans assigns the open slots of dead processes to the caller, and returns them. If only one process can have
	// the journal open, there are none.
	Orphans(ctx context.Context, pipeline string) ([]SlotRecord, error)
	Slots(ctx context.Context, pipeline string, limit int) ([]SlotRecord, error)
}

// RunStore has the reports of the last runs. See [JournalFile] for the other methods.
type RunStore interface {
	// BeginRun records a run without a slot. If another run of the pipeline has not ended, even in another process,
	// BeginRun records nothing and returns [ErrUnderWay], wrapped.
	BeginRun(ctx context.Context, r RunRecord) error
	// KeepRun records a run or its outcome. It changes nothing if another process has taken over the run.
	KeepRun(ctx context.Context, r RunRecord) error
	BreakRuns(ctx context.Context, reason string) error
	Runs(ctx context.Context, pipeline, bound string, limit int) ([]RunRecord, error)
	Run(ctx context.Context, run string) (RunRecord, bool, error)
}

// JournalReader reads the runs of a journal. See [JournalFile] for its methods.
type JournalReader interface {
	Runs(ctx context.Context, pipeline, bound string, limit int) ([]RunRecord, error)
	Run(ctx context.Context, run string) (RunRecord, bool, error)
	Close() error
}

// AuditStore has the last actions of users on daemons. Its methods are described at [JournalFile].
type AuditStore interface {
	KeepAudit(ctx context.Context, r AuditRecord) error
	Audit(ctx context.Context, offset, limit int) (all []AuditRecord, total int, err error)
}

// Notes are small texts with names. For example, they record which alerts were sent, and which signature schemes
// penstock has learned. They contain no secrets, because secrets are stored in a [Vault].
type Notes interface {
	// Note returns the text of a note, or nil if there is none.
	Note(ctx context.Context, name string) ([]byte, error)
	// SetNote replaces the text of a note. If the stored text differs from previous, SetNote changes nothing and
	// returns [ErrMoved], wrapped. If previous is nil, the note must not exist yet. If text is nil, SetNote removes the
	// note. The change is durable when SetNote returns.
	SetNote(ctx context.Context, name string, previous, text []byte) error
	// NotesIn returns the texts of the notes in a folder, by name. The note "a/b" is in the folder a. If some notes
	// cannot be read, NotesIn returns the others, and an error.
	NotesIn(ctx context.Context, folder string) (map[string][]byte, error)
}

var (
	_ Inbox     = (*InboxFile)(nil)
	_ Journal   = (*JournalFile)(nil)
	_ UnitStore = (*UnitsFile)(nil)
	_ Lease     = (*Lock)(nil)
)
