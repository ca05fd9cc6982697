package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state"
)

func stateBackupCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "copy the state folder, even while serve runs",
		Long: `Copies the state folder into DIR, which must be empty or not exist. The copy is a
consistent snapshot of the inbox and the journal, tokens, the mask key, and sent
alerts. Processes that use the folder continue. Like the folder, the copy contains
secrets. The file backup.json, which is written last, lists every file with its
digest.

Cursors are not in the state folder. A destination stores them with the rows that
they cover, so a backup of the destination contains them.`,
		Example: `  penstock state backup /backups/penstock-$(date +%F)`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := stateDir(a)
			if err != nil {
				return err
			}
			b, err := state.MakeBackup(cmd.Context(), dir, args[0])
			if err != nil {
				return backupTrouble(err)
			}
			return printBackup(a, "copied", b, args[0])
		},
	}
}

func stateRestoreCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "restore DIR",
		Short: "restore the state folder from a backup",
		Long: `Restores the state folder from the backup in DIR, after checking the digest of each
file. The state folder must be empty or not exist: stop serve and move the folder
away first. It is restored completely or not at all.

The next runs find what the source has changed since the backup. Events that were
acknowledged after the backup are lost, but the runs read the records that these
events announced. If a token was renewed after the backup, the restored token is not
valid: penstock login signs in again.`,
		Example: `  mv .penstock .penstock.old && penstock state restore /backups/penstock-2026-11-21`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := stateDir(a)
			if err != nil {
				return err
			}
			b, err := state.RestoreBackup(args[0], dir)
			if err != nil {
				return backupTrouble(err)
			}
			return printBackup(a, "restored", b, dir)
		},
	}
}

// stateDir returns the state folder of the configuration.
func stateDir(a *app) (string, error) {
	c, err := a.open.LoadDestinations()
	if err != nil {
		return "", err
	}
	if c.State.Dir == "" {
		return "", failure.Usage("copy it with `pg_dump --schema=…`, even while penstock runs; tokens stay encrypted in the dump", "the state is in a database, %s", open.StateHost(c))
	}
	return c.State.Dir, nil
}

func backupTrouble(err error) error {
	switch {
	case errors.Is(err, state.ErrOccupied):
		// Cause: the folder exists and is not empty
		return failure.Usage("name a folder that does not exist; before a restore, stop penstock and move the state folder away", "%w", err)
	case errors.Is(err, state.ErrDamaged):
		// Cause: a file of the backup is damaged
		return failure.Hinted(err, "nothing was restored; use another backup")
	}
	return err
}

func printBackup(a *app, done string, b state.Backup, to string) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(b)
	}
	var size int64
	for _, f := range b.Files {
		size += f.Size
	}
	_, err := fmt.Fprintf(a.out, "%s %s, %s bytes, as of %s: %s\n", done, render.Plural(len(b.Files), "file"), render.Grouped(size), b.Made.Format("2006-01-02 15:04:05Z"), to)
	return err
}
