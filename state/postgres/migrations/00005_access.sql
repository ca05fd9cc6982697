-- +goose Up

-- The sender of a capture, and whether the capture has the signature header. These decide which captures are
-- deleted to make room for new ones.
ALTER TABLE captures ADD COLUMN sender text NOT NULL DEFAULT '', ADD COLUMN likely boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE captures DROP COLUMN sender, DROP COLUMN likely;
