-- +goose Up

-- sender is the sender of a capture. likely says whether the capture has the signature header. Both decide which
-- captures are deleted to make room for new ones.
ALTER TABLE captures ADD COLUMN sender text NOT NULL DEFAULT '', ADD COLUMN likely boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE captures DROP COLUMN sender, DROP COLUMN likely;
