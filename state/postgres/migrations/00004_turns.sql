-- +goose Up

-- Indexes for the order of claims: the units of a pipeline that may start, the one that has waited longest first,
-- and the last start of one of its units.
DROP INDEX units_due;
CREATE INDEX units_due ON units (pipeline, not_before, id) WHERE state IN ('waiting', 'parked');
CREATE INDEX units_begun ON units (pipeline, started);

-- +goose Down
DROP INDEX units_begun, units_due;
CREATE INDEX units_due ON units (not_before, id) WHERE state IN ('waiting', 'parked');
