-- +goose Up

-- What people did, or tried to do, at a daemon.
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
