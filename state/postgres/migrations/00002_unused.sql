-- +goose Up
ALTER TABLE budgets ADD COLUMN used date NOT NULL DEFAULT current_date; -- day of the last change
-- The renewal of a lease changes no index. The update of a budget changes an index at most once a day.
CREATE INDEX budgets_by_use ON budgets (used);
CREATE INDEX event_variants_by_day ON event_variants (day);
CREATE INDEX leases_by_age ON leases (since);
CREATE INDEX source_outcomes_by_age ON source_outcomes (ended);
-- +goose Down
DROP INDEX event_variants_by_day, source_outcomes_by_age, leases_by_age, budgets_by_use;
ALTER TABLE budgets DROP COLUMN used;
