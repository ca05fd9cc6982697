-- +goose Up

-- The sender of a capture, and whether it has the signature header. Which captures are
-- deleted for new ones depends on them.
ALTER TABLE captures ADD COLUMN sender text NOT NULL DEFAULT '', ADD COLUMN likely boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE captures DROP COLUMN sender, DROP COLUMN likely;
