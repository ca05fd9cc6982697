package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/state"
)

func (a *app) stateBackupCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR",
		Short: "a copy of the state folder, made while serve runs",
		Long: `Copies the state folder into DIR, which must be empty or not there: the inbox and
the journal as they were at one moment, tokens, the key of masks, what was
alerted. Whoever works with the folder goes on. The copy holds secrets as the
folder does; backup.json in it, which comes last, names every file with its
digest.

Cursors are not in the state folder: they are in the destination, with the rows
that they cover, and so in its backup.`,
		Example: `  penstock state backup /backups/penstock-$(date +%F)`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			b, err := state.MakeBackup(cmd.Context(), dir, args[0])
			if err != nil {
				return backupTrouble(err)
			}
			return a.printBackup("copied", b, args[0])
		},
	}
}

func (a *app) stateRestoreCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "restore DIR",
		Short: "the state folder as a backup has it",
		Long: `Makes the state folder of the backup in DIR, after each file was held against its
digest. The state folder must be empty or not there: stop serve and move it away
first. It is there whole, or not at all.

What the source has changed since the backup is found by the next runs. Events
that were acknowledged since are not in it any more; the runs find what they told.
A token that was renewed since has ended: penstock login signs in again.`,
		Example: `  mv .penstock .penstock.old && penstock state restore /backups/penstock-2026-11-21`,
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := a.stateDir()
			if err != nil {
				return err
			}
			b, err := state.RestoreBackup(args[0], dir)
			if err != nil {
				return backupTrouble(err)
			}
			return a.printBackup("restored", b, dir)
		},
	}
}

// stateDir is the state folder of the configuration.
func (a *app) stateDir() (string, error) {
	c, err := a.loadPlaces()
	if err != nil {
		return "", err
	}
	if c.State.Dir == "" {
		return "", usage("`pg_dump --schema=…` copies it, while penstock runs; tokens in the dump stay encrypted", "the state is in a database, %s", stateHost(c))
	}
	return c.State.Dir, nil
}

func backupTrouble(err error) error {
	switch {
	case errors.Is(err, state.ErrOccupied):
		return usage("name a folder that is not there yet; before a restore, stop penstock and move the state folder away", "%w", err)
	case errors.Is(err, state.ErrDamaged):
		return hinted(err, "nothing was restored; take another backup")
	}
	return err
}

func (a *app) printBackup(done string, b state.Backup, to string) error {
	if a.json {
		return lineWriter(a.out).Encode(b)
	}
	var size int64
	for _, f := range b.Files {
		size += f.Size
	}
	_, err := fmt.Fprintf(a.out, "%s %s, %s bytes, as of %s: %s\n", done, plural(len(b.Files), "file"), grouped(size), b.Made.Format("2006-01-02 15:04:05Z"), to)
	return err
}
