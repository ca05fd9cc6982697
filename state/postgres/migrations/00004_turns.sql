-- +goose Up

-- Indexes for finding the next unit to claim. units_due finds the unit of a pipeline that has waited longest.
-- units_begun finds the last start of a pipeline's units.
DROP INDEX units_due;
CREATE INDEX units_due ON units (pipeline, not_before, id) WHERE state IN ('waiting', 'parked');
CREATE INDEX units_begun ON units (pipeline, started);

-- +goose Down
DROP INDEX units_begun, units_due;
CREATE INDEX units_due ON units (not_before, id) WHERE state IN ('waiting', 'parked');
