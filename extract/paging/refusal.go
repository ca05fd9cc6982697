package paging

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/penstock-data/penstock/extract/wire"
)

// EndStatus returns the status of a refusal that may mean that the list ends before the requested page.
func EndStatus(err error) (status int, ok bool) {
	e, is := errors.AsType[*wire.Error](err)
	if !is {
		return 0, false
	}
	some := []int{http.StatusNoContent, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity, http.StatusGone, http.StatusForbidden}
	return e.Status, slices.Contains(some, e.Status)
}

// Refused reports whether the server rejected the parameters of a probe. Temporary failures, and errors about
// credentials or the rate limit, say nothing about the parameters.
func Refused(err error) bool {
	e, ok := errors.AsType[*wire.Error](err)
	if !ok || e.Status == 0 {
		return false
	}
	switch e.Class {
	case wire.Invalid, wire.Missing, wire.Malformed:
		return true
	case wire.NotEntitled:
		return e.Status == http.StatusForbidden
	case wire.Transient:
		_, refuted := errors.AsType[*RefutedError](err)
		return refuted || e.Status < 500
	}
	return false
}

// RefutedError is an error of the server that only this probe causes.
type RefutedError struct{ Fault *wire.Error }

// Error returns the text of the server's error.
func (e *RefutedError) Error() string { return e.Fault.Error() }

// Unwrap returns the server's error.
func (e *RefutedError) Unwrap() error { return e.Fault }

var errorWords = regexp.MustCompile(`(?i)something went wrong|server error|malformed utf-?8`)

// FailsOnData reports whether an error looks as if the server fails only on certain records, not on all requests.
func FailsOnData(e *wire.Error) bool {
	switch {
	case e.Status == http.StatusInternalServerError:
		return true
	case e.Status == http.StatusBadRequest, e.Status/100 == 2 && e.Class == wire.Transient:
		return errorWords.MatchString(e.Message)
	}
	return false
}

func mayHoldBrokenRecord(at Position, err error) bool {
	fault, ok := errors.AsType[*wire.Error](err)
	return ok && FailsOnData(fault) && (at.Kind == KindPage || at.Kind == KindOffset)
}

func wordsWithout(text string, omitted ...string) []string {
	words := strings.FieldsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || strings.ContainsRune(`"':;,.()`, c) })
	return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(omitted, w) })
}

// UnexplainedError says that the list may have more records than the probes can read.
type UnexplainedError struct {
	Seen  string   // what the probes saw
	Tried []string // rejected candidates, each with the reason
}

// Error returns what the probes saw and tried.
func (e *UnexplainedError) Error() string {
	return strings.Join(append([]string{e.Seen}, e.Tried...), ", ")
}
