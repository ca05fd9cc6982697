package board

import (
	"cmp"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Tone is how serious the state of a run, pass, stream, source or slot is. Pages show it as a colour.
type Tone string

// The tones. TonePaused is only for sources.
const (
	ToneNew       Tone = "new" // not read by any run yet
	ToneOK        Tone = "ok"
	ToneBusy      Tone = "busy"
	ToneAttention Tone = "attention" // neither complete nor failed
	ToneFailing   Tone = "failing"
	TonePaused    Tone = "paused"
)

// ToneOf returns the tone of a status.
func ToneOf(s pipeline.Status) Tone {
	switch s {
	case "":
		return ToneNew
	case pipeline.StatusComplete:
		return ToneOK
	case pipeline.StatusRunning:
		return ToneBusy
	case pipeline.StatusFailed:
		return ToneFailing
	}
	return ToneAttention
}

// Graver compares two tones by severity. The result is negative if a is milder than b.
func Graver(a, b Tone) int {
	mildest := []Tone{ToneNew, ToneOK, ToneBusy, ToneAttention, ToneFailing}
	return cmp.Compare(slices.Index(mildest, a), slices.Index(mildest, b))
}

// StateCounts counts streams or sources by state. A stream counts once for each of its destinations.
type StateCounts struct {
	All       int `json:"all"`
	OK        int `json:"ok"`
	Attention int `json:"attention"`
	Failing   int `json:"failing"`
	New       int `json:"new" jsonschema:"description=Not read by any run yet."`
	Paused    int `json:"-"` // only sources can be paused
}

// Add counts a stream or source with the tone.
func (c *StateCounts) Add(t Tone) {
	c.All++
	switch t {
	case ToneOK:
		c.OK++
	case ToneFailing:
		c.Failing++
	case ToneNew:
		c.New++
	case TonePaused:
		c.Paused++
	default:
		c.Attention++
	}
}

func tallyOf(streams []Stream) (c StateCounts) {
	for _, s := range streams {
		c.Add(s.Tone())
	}
	return c
}
