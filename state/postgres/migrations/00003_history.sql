-- +goose Up
-- What runs did, as sums of an hour or a day. Once a day, all rows are read; all other queries use the primary key.
CREATE TABLE history (
	pipeline   text COLLATE "C" NOT NULL,
	source     text COLLATE "C" NOT NULL, -- '': all sources
	stream     text COLLATE "C" NOT NULL, -- '': all streams
	width      bigint NOT NULL, -- microseconds, like all durations of this table
	at         timestamptz NOT NULL,
	runs       bigint NOT NULL,
	incomplete bigint NOT NULL,
	took       bigint NOT NULL,
	longest    bigint NOT NULL,
	complete   timestamptz, -- the last time when all in the series was complete
	fetched    bigint NOT NULL,
	written    bigint NOT NULL,
	deleted    bigint NOT NULL,
	rejected   bigint NOT NULL,
	requests   bigint NOT NULL,
	allowed    bigint NOT NULL, -- by the rate limit
	PRIMARY KEY (pipeline, source, stream, width, at)
);
CREATE TABLE history_joined (day timestamptz NOT NULL); -- the last day on which hours were joined to days
INSERT INTO history_joined VALUES ('-infinity');
-- +goose Down
DROP TABLE history_joined, history;
