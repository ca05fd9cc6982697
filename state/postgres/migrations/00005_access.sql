-- +goose Up

-- Whom a capture came from, and whether it has the header of signatures: what gives
-- way where there is no room goes by them.
ALTER TABLE captures ADD COLUMN sender text NOT NULL DEFAULT '', ADD COLUMN likely boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE captures DROP COLUMN sender, DROP COLUMN likely;
