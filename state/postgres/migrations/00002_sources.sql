-- +goose Up
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
	failures integer NOT NULL, -- number of incomplete runs in a row
	silent   boolean NOT NULL,
	written  bigint NOT NULL,
	requests bigint NOT NULL,
	PRIMARY KEY (pipeline, source)
);
-- +goose Down
DROP TABLE source_outcomes, source_pauses;
