package state

// inboxSchema are the steps of the inbox's schema: see [openSQLite]. Texts that
// come from outside are blobs, since they may hold anything.
//
// An event with a reason is a dead letter, and in none of the queue's indexes.
// The ids outlive the events: what was filed there is found by its key, half a
// SHA-256 of source and id. Those of the events after inbox.filed are not there
// yet; the events have them.
var inboxSchema = []string{`
CREATE TABLE inbox (
	last  INTEGER NOT NULL, -- the ordinal given last
	filed INTEGER NOT NULL, -- events up to here have their ids in the table of ids
	swept INTEGER NOT NULL  -- which 256th of the ids was looked through last for old ones
) STRICT;
INSERT INTO inbox VALUES (0, 0, 0);
CREATE TABLE sources (
	source  INTEGER PRIMARY KEY,
	name    BLOB NOT NULL UNIQUE,
	head    INTEGER NOT NULL DEFAULT 0, -- the last of its events
	trimmed INTEGER NOT NULL DEFAULT 0, -- events up to here are gone
	bytes   INTEGER NOT NULL DEFAULT 0  -- of events kept
) STRICT;
CREATE TABLE events (
	ordinal  INTEGER PRIMARY KEY,
	source   INTEGER NOT NULL,
	id       BLOB NOT NULL,
	type     BLOB NOT NULL,
	received INTEGER NOT NULL, -- microseconds since 1970
	scheme   BLOB NOT NULL,
	header   BLOB NOT NULL,    -- JSON
	body     BLOB NOT NULL,
	digest   BLOB NOT NULL,    -- half a SHA-256 of the body
	conflict INTEGER NOT NULL,
	size     INTEGER NOT NULL, -- of the row, as the quota counts it
	reason   TEXT
) STRICT;
CREATE INDEX events_queue ON events (source, ordinal) WHERE reason IS NULL;
CREATE INDEX events_dead ON events (source, ordinal) WHERE reason IS NOT NULL;
CREATE TABLE ids (
	key     BLOB PRIMARY KEY,
	digest  BLOB NOT NULL,    -- of the body that came first
	ordinal INTEGER NOT NULL,
	day     INTEGER NOT NULL  -- since 1970
) STRICT, WITHOUT ROWID;
CREATE TABLE variants ( -- other bodies that came with an id
	key    BLOB NOT NULL,
	digest BLOB NOT NULL,
	day    INTEGER NOT NULL,
	PRIMARY KEY (key, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE captures (
	capture  INTEGER PRIMARY KEY AUTOINCREMENT,
	source   BLOB NOT NULL,
	received INTEGER NOT NULL,
	header   BLOB NOT NULL,
	body     BLOB NOT NULL
) STRICT;
`, `
ALTER TABLE captures ADD COLUMN sender TEXT NOT NULL DEFAULT '';
ALTER TABLE captures ADD COLUMN likely INTEGER NOT NULL DEFAULT 0;
`}
