package after

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Limits of the results that are kept of a pipeline. The results of the last run are always kept with their output.
// Invariant 6
const (
	mostRuns  = 100
	mostBytes = 256 << 10
)

// Results are the results of the commands of one run.
type Results struct {
	Run      string             `json:"run"`
	Commands []pipeline.Command `json:"commands"`
}

// The note folder/PIPELINE.json has the results of a pipeline.
const folder, ending = "after", ".json"

func noteName(name string) string { return folder + "/" + name + ending }

// keepTries is how often Keep tries to write while other processes write too.
const keepTries = 5

// Keep adds results to those of a pipeline, and removes old ones. They replace earlier results of the same run.
func Keep(ctx context.Context, notes state.Notes, name string, r Results) error {
	return keep(ctx, notes, name, r, true)
}

// KeepFirst does what Keep does, except if there are results of the same run already. It is for a process that has not
// run the commands, or that another process may have replaced.
func KeepFirst(ctx context.Context, notes state.Notes, name string, r Results) error {
	return keep(ctx, notes, name, r, false)
}

func keep(ctx context.Context, notes state.Notes, name string, r Results, replace bool) (err error) {
	for range keepTries {
		var before, text []byte
		if before, err = notes.Note(ctx, noteName(name)); err != nil {
			return err
		}
		if text, err = added(before, r, replace); err != nil || text == nil {
			return err
		}
		if err = notes.SetNote(ctx, noteName(name), before, text); !errors.Is(err, state.ErrMoved) {
			return err
		}
	}
	return err
}

// added returns the text of a note with further results, or nil if the note is to stay as it is.
func added(note []byte, r Results, replace bool) ([]byte, error) {
	all, err := parse(note)
	if err != nil {
		all = nil // a damaged note is replaced: without it, commands run once more at most
	}
	same := func(o Results) bool { return o.Run == r.Run }
	if !replace && slices.ContainsFunc(all, same) {
		return nil, nil
	}
	all = append(slices.DeleteFunc(all, same), r)
	for {
		text, err := json.Marshal(all)
		if err != nil || len(all) == 1 || len(all) <= mostRuns && len(text) <= mostBytes {
			return text, err
		}
		all = shortened(all, len(all) > mostRuns)
	}
}

// shortened removes something from the results: an output if there is one and a run need not go, or the results of a
// run. Results of successful commands go first, because a run without results is shown as complete. Those of the last
// run stay. // Invariant 14
func shortened(all []Results, aRun bool) []Results {
	old := all[:len(all)-1]
	for _, r := range old {
		for i := range r.Commands {
			if !aRun && r.Commands[i].Output != "" {
				r.Commands[i].Output = ""
				return all
			}
		}
	}
	i := max(0, slices.IndexFunc(old, func(r Results) bool { return r.Successful() }))
	return slices.Delete(all, i, i+1)
}

// Successful reports whether all commands of the run were successful.
func (r Results) Successful() bool {
	return !slices.ContainsFunc(r.Commands, func(c pipeline.Command) bool { return c.Result != pipeline.CommandOK })
}

// Read returns the results of a pipeline, those of the oldest run first.
func Read(ctx context.Context, notes state.Notes, name string) ([]Results, error) {
	text, err := notes.Note(ctx, noteName(name))
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// ReadAll returns the results of all pipelines, by pipeline. If some of them cannot be read, it returns the others, and
// an error.
func ReadAll(ctx context.Context, notes state.Notes) (map[string][]Results, error) {
	texts, err := notes.NotesIn(ctx, folder)
	all := map[string][]Results{}
	for name, text := range texts {
		results, fault := parse(text)
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("note %s: %w", name, fault))
			continue
		}
		all[strings.TrimSuffix(strings.TrimPrefix(name, folder+"/"), ending)] = results
	}
	return all, err
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
