package state

// inboxSchema lists the migrations of the inbox: see [openSQLite]. Text from outside is stored as blobs, because it may
// contain any bytes. An event with a reason is a dead letter, and is not in the index events_queue. The ids table
// remembers the ids of events longer than the events are stored. The key of this table is half of the SHA-256 of source
// and id. The ids of events after inbox.filed are not in that table yet.
var inboxSchema = []string{`
CREATE TABLE inbox (
	last  INTEGER NOT NULL, -- the last ordinal
	filed INTEGER NOT NULL, -- the ids of events up to here are in the table ids
	swept INTEGER NOT NULL  -- which of 256 parts of the ids was last searched for old ones
) STRICT;
INSERT INTO inbox VALUES (0, 0, 0);
CREATE TABLE sources (
	source  INTEGER PRIMARY KEY,
	name    BLOB NOT NULL UNIQUE,
	head    INTEGER NOT NULL DEFAULT 0, -- ordinal of its last event
	trimmed INTEGER NOT NULL DEFAULT 0, -- events up to here are deleted
	bytes   INTEGER NOT NULL DEFAULT 0  -- of the stored events
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
	digest   BLOB NOT NULL,    -- half of a SHA-256 of the body
	conflict INTEGER NOT NULL,
	size     INTEGER NOT NULL, -- of the row, as counted by the quota
	reason   TEXT
) STRICT;
CREATE INDEX events_queue ON events (source, ordinal) WHERE reason IS NULL;
CREATE INDEX events_dead ON events (source, ordinal) WHERE reason IS NOT NULL;
CREATE TABLE ids (
	key     BLOB PRIMARY KEY,
	digest  BLOB NOT NULL,    -- of the first body
	ordinal INTEGER NOT NULL,
	day     INTEGER NOT NULL  -- since 1970
) STRICT, WITHOUT ROWID;
CREATE TABLE variants ( -- further bodies with the same id
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
