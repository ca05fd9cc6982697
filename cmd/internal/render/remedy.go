package render

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/transform"
)

// doubtRemedies maps doubts, by their names in package proof, to hints. A doubt without an entry gets a general
// hint.
var doubtRemedies = map[string]string{
	// Cause: the list says in its answers that it continues, and penstock found no way to request more
	"unexplained signal": "the records that arrived were written; configure the paging under streams: `pagination: {type: page, page: PARAMETER}`, or `pagination: {type: none}` if everything is on one page",
	// Cause: the list ends at a round number of records, such as 100, so it may have more
	"usual length": "the records that arrived were written; configure the paging under streams, or `pagination: {type: none}` if everything is on one page",
	// Cause: the source said that an answer is incomplete
	"incomplete answer": "the records that arrived were written, and nothing was deleted; run again when the source answers completely",
	// Cause: two different records of the list have the same key
	"refuted key": "configure the key under streams: `key: [id, …]`, or drop the table and load it again; `penstock rejects list` shows the records that were left out",
	// Cause: some records of the list cannot be read
	"unreadable records": "the records that arrived were written, and nothing was deleted; the next run requests these records again",
}

// remedy returns the hint for the outcome of one stream; "" if there is none.
func remedy(s pipeline.StreamReport) string {
	if _, ok := errors.AsType[*transform.ContractError](s.Err); ok {
		// Cause: the data does not fit the contract of the table (`schema:` in the pipeline)
		return "nothing was written; `penstock schema show " + s.Table + "` shows the table's columns"
	}
	if e, ok := errors.AsType[*pipeline.HeldError](s.Err); ok {
		return heldRemedy(e, s.Missing)
	}
	if _, ok := errors.AsType[*pipeline.UnstoredError](s.Err); ok {
		// Cause: no column can hold some records
		return "`penstock rejects list --stream " + s.Stream + "` shows these records and the reasons; `penstock rejects accept --stream " + s.Stream + "` accepts the loss"
	}
	if s.Err == nil {
		if s.Counts.Rejected > 0 {
			// Cause: no column can hold some values, or a contract keeps records out
			return "`penstock rejects list --stream " + s.Stream + "` shows the rejected records and values, and the reasons"
		}
		return ""
	}
	if _, ok := errors.AsType[*pipeline.RangeError](s.Err); ok {
		return HintRange(s.Stream)
	}
	if _, ok := errors.AsType[*pipeline.ChangedError](s.Err); ok {
		// Cause: the source answers in another form than in earlier runs
		return "nothing was written; `penstock explain " + s.Stream + "` shows what earlier runs found out about the endpoint, and `penstock discover " + s.Stream + "` shows how the source answers now"
	}
	if e, ok := errors.AsType[*wire.Error](s.Err); ok {
		return SourceRemedy(e, s.Stream)
	}
	if errors.Is(s.Err, state.ErrMoved) { // also if only one of several destinations is behind
		// Cause: another process has committed to the same stream during the run
		return "another process is syncing this pipeline; nothing of this run was stored"
	}
	if hint := storeRemedy(s); hint != "" {
		return hint
	}
	if s.Status == pipeline.StatusStopped {
		return ""
	}
	// Cause: any other error; its message says what went wrong
	return "fix the cause and run again; the table has not changed since its last commit"
}

// heldRemedy returns the hint for a stream whose missing rows were kept.
func heldRemedy(e *pipeline.HeldError, missing int64) string {
	if e.Confirm {
		// Cause: the list is empty or much shorter than the table
		return fmt.Sprintf("if %s rows are really gone at the source, run again with --confirm-shrink", Grouped(missing))
	}
	if len(e.Doubts) > 0 && doubtRemedies[e.Doubts[0]] != "" {
		return doubtRemedies[e.Doubts[0]]
	}
	// Cause: rows are missing in the list, and it is not proven that their records are gone
	return "the records that arrived were written, and missing rows were kept; run again when the source changes less: a pass that is proven then deletes the missing rows"
}

// SourceRemedy returns the hint for an error response of the source.
func SourceRemedy(e *wire.Error, stream string) string {
	switch e.Class {
	case wire.Auth:
		if errors.Is(e, wire.ErrSignIn) {
			// Cause: the authorization server does not accept the stored sign-in any more
			return hintSignIn
		}
		if e.Challenge == wire.ChallengeToken {
			// Cause: 401: the answer says that the token is not valid any more
			return "the server says that the token has expired or was revoked: run `penstock login` for oauth, or set another key or token; committed data is safe"
		}
		// Cause: 401: the source does not accept the credential
		return "the key or token is missing, wrong or expired; check auth in the configuration, then run `penstock check`"
	case wire.NotEntitled:
		if e.Challenge == wire.ChallengeScope {
			return hintScope(e.Scope, stream)
		}
		// Cause: 403: the source refuses the request
		return fmt.Sprintf("the module is off, or the credential has no permission to read it; change this at the source, or exclude the stream: \"!%s\"", stream)
	case wire.Throttled:
		if errors.Is(e, wire.ErrOutage) {
			// Cause: the token endpoint answers with an error of the server
			return "the server that renews the token has an outage; run again later; the sign-in and committed data are safe"
		}
		if !e.NotBefore.IsZero() {
			// Cause: 429: the source has a limit of requests, and says when it ends
			return "the source asks to wait until " + e.NotBefore.Local().Format(time.DateTime) + "; until then runs send no requests; committed data is safe"
		}
		// Cause: 429: the source has a limit of requests
		return "the source asks to wait; run again later; committed data is safe"
	case wire.Refused:
		// Cause: the source leads to another host, or its certificate is not valid
		return "credentials are sent only to the host of base_url, over verified TLS; check base_url and the server's certificate"
	case wire.NotData:
		// Cause: the source answers with a web page, not with JSON
		return fmt.Sprintf("the response is a web page; if the module exists, its path differs: override the path under streams: %s", stream)
	case wire.Transient:
		if e.Status == 500 || e.Status == 400 || e.Status/100 == 2 {
			// Cause: 500, or an error for one page of a list
			return fmt.Sprintf("run again later; if the error persists, one bad record may be the cause: set a page size (pagination: {size: …} under streams: %s), and the next run can skip that record", stream)
		}
		if e.Status == 0 {
			// Cause: the source does not answer
			return "cannot reach the source, or the connection broke; check base_url and the network, then run again; committed data is safe"
		}
		// Cause: 502, 503 or 504
		return "cannot reach the source, or it has an outage; run again later; committed data is safe"
	case wire.Malformed:
		if u, ok := errors.AsType[*extract.UnsettledError](e); ok {
			// Cause: several ways to read the list fit its answers
			return "copy these lines to pipelines.yaml, and replace the words in capitals:\n" + strings.TrimRight(u.YAML, "\n")
		}
		// Cause: the answer is not JSON, or has no records where earlier answers had them
		return fmt.Sprintf("the response is not in the expected format; `penstock discover %s` shows how the source answers now; the table was not changed", stream)
	case wire.Missing, wire.Invalid:
		// Cause: 400, 404 or 405
		return fmt.Sprintf("this platform does not know the path or its parameters; override them under streams: %s", stream)
	}
	return ""
}

// hintScope returns the hint for a token that lacks a scope.
func hintScope(scope, stream string) string {
	what := "a scope that this stream needs"
	if scope != "" {
		what = fmt.Sprintf("the scope %q", scope)
	}
	// Cause: 403: the answer names a scope that the token lacks
	return fmt.Sprintf("the token lacks %s: for oauth, add it to scopes and run `penstock login`; otherwise create a key or token that has it, or exclude the stream: \"!%s\"", what, stream)
}

// nextSteps returns suggested commands after a run.
func nextSteps(r pipeline.Report, file string) []string {
	verb := func(words string) string { return Suggest("penstock "+words, file) }
	count := map[pipeline.Status]int{}
	landed := false
	for _, s := range r.Streams {
		count[s.Status]++
		landed = landed || s.Destination != ""
	}
	var steps []string
	if n := count[pipeline.StatusParked] + count[pipeline.StatusStopped] + count[pipeline.StatusFailed] + count[pipeline.StatusLagging]; n > 0 {
		steps = append(steps, fmt.Sprintf("run again to finish %s; it continues from the last commit", Plural(n, "stream")))
	}
	switch {
	case count[pipeline.StatusUnavailable] > 0:
		steps = append(steps, verb("check"))
	case !landed:
		return append(steps, verb("sync "+r.Pipeline))
	}
	if r.Status == pipeline.StatusComplete {
		return append(steps, verb("docs --format html -o dictionary.html"), verb("status"))
	}
	return append(steps, verb("runs "+r.Run))
}

// hintSignIn is the hint for a sign-in that has ended.
const hintSignIn = "sign in with `penstock login`; committed data is safe"

// HintRange returns a hint with the settings that make a stream readable by range.
func HintRange(stream string) string {
	if stream == "" {
		stream = "NAME"
	}
	// Cause: the stream has no filter by time
	return "set the filter under streams: `" + stream + ": {incremental: {field: updated_at, param: updated_since, until: updated_before}}`, or `incremental: auto`; " +
		"without --from every stream is read whole"
}

// Remedy returns the hint for an error of the source, or of the file of a destination.
func Remedy(err error, stream string) string {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return SourceRemedy(e, stream)
	}
	return DestinationRemedy(err)
}
