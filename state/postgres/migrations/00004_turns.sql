-- +goose Up

-- Whose turn it is: the units of a pipeline that may be begun, the first of them
-- first, and when one of its units was begun last.
DROP INDEX units_due;
CREATE INDEX units_due ON units (pipeline, not_before, id) WHERE state IN ('waiting', 'parked');
CREATE INDEX units_begun ON units (pipeline, started);

-- +goose Down
DROP INDEX units_begun, units_due;
CREATE INDEX units_due ON units (not_before, id) WHERE state IN ('waiting', 'parked');
