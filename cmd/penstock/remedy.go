package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// doubtRemedies are the next steps for doubts that another run does not settle, by
// their names in package proof.
var doubtRemedies = map[string]string{
	"unexplained signal": "what came was written; say under streams how the list goes on, `pagination: {type: page, page: PARAMETER}`, or `pagination: {type: none}` where all is on one page",
	"usual length":       "what came was written; say under streams how the list goes on, or `pagination: {type: none}` where all is on one page",
	"incomplete answer":  "what came was written, nothing is deleted; run again when the source answers in full",
	"refuted key":        "say under streams what tells the records apart, `key: [id, …]`, or drop the table and load it anew; `penstock rejects list` shows the records that were kept out",
	"unreadable records": "what came was written, nothing is deleted; the next run requests these records again",
}

// remedy is what a person can do about one stream's end; "" where nothing.
func remedy(s pipeline.StreamReport) string {
	if _, ok := errors.AsType[*transform.ContractError](s.Err); ok {
		return "nothing was written; `penstock schema show " + s.Table + "` tells what the table has"
	}
	if e, ok := errors.AsType[*pipeline.HeldError](s.Err); ok {
		if e.Confirm {
			return fmt.Sprintf("if %s rows are really gone at the source, run again with --confirm-shrink", grouped(s.Missing))
		}
		if len(e.Doubts) > 0 && doubtRemedies[e.Doubts[0]] != "" {
			return doubtRemedies[e.Doubts[0]]
		}
		return "what came was written; run again when the source changes less, what is gone is deleted by the first pass that can prove it"
	}
	if _, ok := errors.AsType[*pipeline.UnstoredError](s.Err); ok {
		return "`penstock rejects list --stream " + s.Stream + "` tells which, and why; `penstock rejects accept --stream " + s.Stream + "` accepts the loss"
	}
	if s.Err == nil {
		if s.Counts.Rejected > 0 {
			return "`penstock rejects list --stream " + s.Stream + "` tells which, and why"
		}
		return ""
	}
	if e, ok := errors.AsType[*load.OwnerError](s.Err); ok {
		if e.Moved() {
			return "nothing was written; the rows are those of the source as it was"
		}
		return "nothing was written; give this pipeline another schema, folder or file, or let it take the table over: `penstock state adopt --stream " + s.Stream + "`"
	}
	if _, ok := errors.AsType[*pipeline.RangeError](s.Err); ok {
		return hintRange(s.Stream)
	}
	if _, ok := errors.AsType[*pipeline.ChangedError](s.Err); ok {
		return "nothing was written; `penstock explain " + s.Stream + "` tells what was known of it, `penstock discover " + s.Stream + "` what it answers now"
	}
	if e, ok := errors.AsType[*wire.Error](s.Err); ok {
		return remedyOf(e, s.Stream)
	}
	switch {
	case errors.Is(s.Err, state.ErrLocked):
		return "close the program that has the file open, or wait for it; nothing was changed, run again"
	case errors.Is(s.Err, load.ErrForeignChange):
		return "nothing was written; `penstock schema show " + s.Table + "` tells what was made of the table"
	case errors.Is(s.Err, state.ErrMoved):
		return "another process syncs this pipeline; nothing of this one was kept"
	case errors.Is(s.Err, syscall.ENOSPC):
		return hintFull
	case s.Status == pipeline.StatusStopped:
		return ""
	case s.Status == pipeline.StatusLagging:
		return "the other destinations have it; `penstock check` says what is wrong with this one, which catches up alone in the next run"
	}
	return "deal with the cause and run again; the table is as its last commit left it"
}

// remedyOf is what a person can do about an answer of the source.
func remedyOf(e *wire.Error, stream string) string {
	switch e.Class {
	case wire.Auth:
		if errors.Is(e, wire.ErrSignIn) {
			return hintSignIn
		}
		if e.Challenge == wire.ChallengeToken {
			return "the server says that the token has ended or was revoked: `penstock login` for oauth, another key or token otherwise; what is committed stays"
		}
		return "the key or token is missing, wrong or expired; look at auth in the configuration, then `penstock check`"
	case wire.NotEntitled:
		if e.Challenge == wire.ChallengeScope {
			return hintScope(e.Scope, stream)
		}
		return fmt.Sprintf("the module is off or the credential may not read it; allow it, or leave it out: \"!%s\"", stream)
	case wire.Throttled:
		if errors.Is(e, wire.ErrOutage) {
			return "the server that renews the token is in trouble; the sign-in is kept, and what is committed stays: run again later"
		}
		if !e.NotBefore.IsZero() {
			return "the source asks to come back after " + e.NotBefore.Local().Format(time.DateTime) + "; until then no run asks it, what is committed stays"
		}
		return "the source asks to come back later; what is committed stays"
	case wire.Refused:
		return "a credential goes to base_url's own host alone, over TLS that can be verified; look at base_url and the server's certificate"
	case wire.NotData:
		return fmt.Sprintf("what answers there is a website; if the module is there, its path is another: override it under streams: %s", stream)
	case wire.Transient:
		if e.Status == 500 || e.Status == 400 || e.Status/100 == 2 {
			return fmt.Sprintf("run again later; if it stays, one bad record may break the answer: a page size (pagination: {size: …} under streams: %s) lets it be left out", stream)
		}
		if e.Status == 0 {
			return "the source cannot be reached or broke off; look at base_url and the network and run again, what is committed stays"
		}
		return "the source cannot be reached or is in trouble; run again later, what is committed stays"
	case wire.Malformed:
		if u, ok := errors.AsType[*extract.UnsettledError](e); ok {
			return "state it in pipelines.yaml, with what stands in capitals filled in:\n" + strings.TrimRight(u.YAML, "\n")
		}
		return fmt.Sprintf("the answer is not what the source promises; `penstock discover %s` tells what it answers now, the table is as it was", stream)
	case wire.Missing, wire.Invalid:
		return fmt.Sprintf("the path or its parameters are not what this platform has; override them under streams: %s", stream)
	}
	return ""
}

// hintScope is what a person can do about a token that lacks a scope.
func hintScope(scope, stream string) string {
	what := "a scope that this stream needs"
	if scope != "" {
		what = fmt.Sprintf("the scope %q", scope)
	}
	return fmt.Sprintf("the token lacks %s: for oauth, add it to scopes and run `penstock login`; otherwise make a key or token that has it, or leave the stream out: \"!%s\"", what, stream)
}

// nextSteps are a few things worth doing after a run.
func nextSteps(r pipeline.Report, config string) []string {
	verb := func(words string) string {
		if config != defaultConfig {
			words = "-c " + config + " " + words
		}
		return "penstock " + words
	}
	count := map[pipeline.Status]int{}
	landed := false
	for _, s := range r.Streams {
		count[s.Status]++
		landed = landed || s.Destination != ""
	}
	var steps []string
	if n := count[pipeline.StatusParked] + count[pipeline.StatusStopped] + count[pipeline.StatusFailed] + count[pipeline.StatusLagging]; n > 0 {
		steps = append(steps, fmt.Sprintf("run again to finish %s; it goes on from the last commit", plural(n, "stream")))
	}
	switch {
	case count[pipeline.StatusUnavailable] > 0:
		steps = append(steps, verb("check"))
	case !landed:
		return append(steps, verb("sync"))
	}
	if r.Status == pipeline.StatusComplete {
		return append(steps, verb("docs --format html -o dictionary.html"), verb("status"))
	}
	return append(steps, verb("runs "+r.Run))
}
