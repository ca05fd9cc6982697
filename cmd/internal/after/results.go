package after

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Limits of the results that are kept of a pipeline. The results of the last run are always kept. // Invariant 6
const (
	mostRuns  = 100
	mostBytes = 256 << 10
)

// Results are the results of the commands of one run.
type Results struct {
	Run      string             `json:"run"`
	Commands []pipeline.Command `json:"commands"`
}

// noteName returns the name of the note with the results of a pipeline.
func noteName(name string) string { return "after/" + name + ".json" }

// keepTries is how often Keep tries to write while other processes write too.
const keepTries = 5

// Keep adds results to those of a pipeline, and removes old ones. They replace earlier results of the same run.
func Keep(ctx context.Context, notes state.Notes, name string, r Results) (err error) {
	for range keepTries {
		var before, text []byte
		if before, err = notes.Note(ctx, noteName(name)); err != nil {
			return err
		}
		if text, err = added(before, r); err != nil {
			return err
		}
		if err = notes.SetNote(ctx, noteName(name), before, text); !errors.Is(err, state.ErrMoved) {
			return err
		}
	}
	return err
}

// added returns the text of a note with further results.
func added(note []byte, r Results) ([]byte, error) {
	all, err := parse(note)
	if err != nil {
		all = nil // the results are only for display, so a damaged note is replaced
	}
	all = append(slices.DeleteFunc(all, func(o Results) bool { return o.Run == r.Run }), r)
	for {
		text, err := json.Marshal(all)
		if err != nil || len(all) == 1 || len(all) <= mostRuns && len(text) <= mostBytes {
			return text, err
		}
		all = all[1:]
	}
}

// Read returns the results of a pipeline, those of the oldest run first.
func Read(ctx context.Context, notes state.Notes, name string) ([]Results, error) {
	text, err := notes.Note(ctx, noteName(name))
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parse(note []byte) (all []Results, err error) {
	if note == nil {
		return nil, nil
	}
	if err := json.Unmarshal(note, &all); err != nil {
		return nil, fmt.Errorf("read results of commands: %w", err)
	}
	return all, nil
}
