-- +goose Up

-- broken counts the attempts in a row whose worker disappeared.
ALTER TABLE units ADD COLUMN broken integer NOT NULL DEFAULT 0;
CREATE INDEX units_of_source ON units (run, source) WHERE state IN ('waiting', 'running', 'parked');

-- +goose Down
DROP INDEX units_of_source;
ALTER TABLE units DROP COLUMN broken;
