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
	complete timestamptz,      -- when it was for the last time
	failures integer NOT NULL, -- runs in a row that were not
	silent   boolean NOT NULL,
	written  bigint NOT NULL,
	requests bigint NOT NULL,
	PRIMARY KEY (pipeline, source)
);
-- +goose Down
DROP TABLE source_outcomes, source_pauses;
