-- +goose Up

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
DROP TABLE audit;
