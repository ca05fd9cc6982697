-- +goose Up
-- Texts from outside are bytea, since they may contain any bytes.
CREATE TABLE inbox (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	last  bigint NOT NULL, -- the last ordinal; a process that assigns ordinals locks this row until its commit
	bytes bigint NOT NULL  -- of the stored events
);
INSERT INTO inbox VALUES (true, 0, 0);
CREATE TABLE inbox_sources (
	source  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name    bytea NOT NULL UNIQUE,
	head    bigint NOT NULL DEFAULT 0, -- ordinal of the last event
	trimmed bigint NOT NULL DEFAULT 0, -- events up to this ordinal are deleted, except dead letters
	bytes   bigint NOT NULL DEFAULT 0
);
CREATE TABLE events (
	ordinal  bigint PRIMARY KEY,
	source   integer NOT NULL REFERENCES inbox_sources,
	id       bytea NOT NULL,
	type     bytea NOT NULL,
	received timestamptz NOT NULL,
	scheme   bytea NOT NULL,
	header   bytea NOT NULL,
	body     bytea NOT NULL,
	digest   bytea NOT NULL,
	conflict boolean NOT NULL,
	size     bigint NOT NULL,
	reason   text
);
CREATE INDEX events_of ON events (source, ordinal);
CREATE INDEX events_queue ON events (source, ordinal) WHERE reason IS NULL;
CREATE INDEX events_dead ON events (source, ordinal) WHERE reason IS NOT NULL;
CREATE TABLE event_ids ( -- kept longer than the events
	key     bytea PRIMARY KEY, -- half of a SHA-256 of source and id
	digest  bytea NOT NULL,    -- digest of the first body
	ordinal bigint NOT NULL,
	day     integer NOT NULL   -- days since 1970
);
CREATE INDEX event_ids_by_day ON event_ids (day);
CREATE TABLE event_variants ( -- bodies that conflict with the first body of the same id
	key    bytea NOT NULL,
	digest bytea NOT NULL,
	day    integer NOT NULL,
	PRIMARY KEY (key, digest)
);
CREATE TABLE captures (
	capture  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	source   bytea NOT NULL,
	received timestamptz NOT NULL,
	header   bytea NOT NULL,
	body     bytea NOT NULL,
	sender   text NOT NULL, -- these two decide which captures are deleted to make room for new ones
	likely   boolean NOT NULL -- it has the signature header
);
CREATE INDEX captures_of ON captures (source, capture);

CREATE TABLE processes ( -- processes that have the journal open
	process text PRIMARY KEY,
	until   timestamptz NOT NULL -- the process counts as alive until then
);
CREATE TABLE pipelines (
	name     text PRIMARY KEY,
	schedule text NOT NULL,
	seen     timestamptz NOT NULL,
	paused   timestamptz
);
CREATE TABLE slots (
	pipeline text NOT NULL,
	due      timestamptz NOT NULL,
	state    text NOT NULL,
	why      text NOT NULL,
	cause    text NOT NULL,
	run      text NOT NULL,
	status   text NOT NULL,
	started  timestamptz,
	ended    timestamptz,
	attempts integer NOT NULL,
	broken   integer NOT NULL,
	count    integer NOT NULL,
	owner    text NOT NULL,
	call     text NOT NULL, -- random id of the call that added it; a retry of that call finds its slots by it
	PRIMARY KEY (pipeline, due)
);
CREATE INDEX slots_open ON slots (pipeline, due) WHERE state IN ('waiting', 'running');
CREATE TABLE runs (
	pipeline text NOT NULL,
	run      text NOT NULL,
	cause    text NOT NULL,
	due      timestamptz,
	started  timestamptz,
	ended    timestamptz,
	status   text NOT NULL,
	error    text NOT NULL,
	report   bytea NOT NULL,
	log      bytea NOT NULL,
	owner    text NOT NULL,
	PRIMARY KEY (pipeline, run)
);
CREATE INDEX runs_by_run ON runs (run);
CREATE INDEX runs_open ON runs (owner) WHERE status = 'running';

CREATE TABLE claims ( -- each has the units that a worker has claimed together
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	until timestamptz NOT NULL -- the worker extends this time; an expired claim stays expired
);
CREATE TABLE units (
	id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	run        text NOT NULL,
	pipeline   text NOT NULL,
	source     text NOT NULL,
	part       text NOT NULL,
	planned    integer NOT NULL DEFAULT 0, -- number of units that the run was planned with
	state      text NOT NULL CHECK (state IN ('waiting', 'running', 'parked', 'done', 'failed', 'cancelled')),
	attempt    integer NOT NULL DEFAULT 0,
	broken     integer NOT NULL DEFAULT 0, -- attempts in a row whose worker disappeared
	worker     text NOT NULL DEFAULT '',
	not_before timestamptz NOT NULL DEFAULT '-infinity',
	started    timestamptz,
	ended      timestamptz,
	claim      bigint, -- the newest claim
	report     bytea,
	job        bigint, -- the queue's job that delivers the unit
	turn       bigint  -- the place of the job in the order of the queue
);
CREATE UNIQUE INDEX units_active ON units (pipeline, source, part) WHERE state IN ('waiting', 'running', 'parked');
CREATE INDEX units_of_source ON units (run, source) WHERE state IN ('waiting', 'running', 'parked');
CREATE INDEX units_running ON units (claim) WHERE state = 'running';
CREATE INDEX units_by_run ON units (pipeline, run);

CREATE SEQUENCE lease_tokens;
CREATE TABLE leases (
	name   text PRIMARY KEY,
	token  bigint NOT NULL, -- grows with each holder
	holder text NOT NULL,   -- for people
	since  timestamptz NOT NULL,
	until  timestamptz NOT NULL
);
CREATE TABLE notes (
	name text PRIMARY KEY,
	text bytea NOT NULL
);
CREATE TABLE secrets (
	name   text PRIMARY KEY,
	secret bytea, -- encrypted with age
	note   bytea
);
CREATE TABLE budgets (
	name text PRIMARY KEY, -- half of a SHA-256 of the credential
	kept bytea NOT NULL    -- written by extract/wire/budget
);

CREATE TABLE source_pauses (
	source text PRIMARY KEY,
	paused timestamptz NOT NULL,
	why    text NOT NULL
);
CREATE TABLE source_outcomes (
	pipeline text NOT NULL,
	source   text NOT NULL,
	run      text NOT NULL,
	status   text NOT NULL,
	error    text NOT NULL,
	ended    timestamptz NOT NULL,
	complete timestamptz,      -- time of the last complete run
	failures integer NOT NULL, -- incomplete runs in a row
	silent   boolean NOT NULL,
	written  bigint NOT NULL,
	requests bigint NOT NULL,
	PRIMARY KEY (pipeline, source)
);

-- What users did, or tried to do, on a daemon.
CREATE TABLE audit (
	id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at      timestamptz NOT NULL,
	who     text NOT NULL,
	what    text NOT NULL,
	object  text NOT NULL,
	address text NOT NULL,
	outcome text NOT NULL,
	refused boolean NOT NULL
);
CREATE INDEX audit_refused ON audit (refused, id);
-- +goose Down
DROP TABLE audit, source_outcomes, source_pauses, budgets, secrets, notes, leases, units, claims, runs, slots, pipelines, processes, captures, event_variants, event_ids, events, inbox_sources, inbox;
DROP SEQUENCE lease_tokens;
