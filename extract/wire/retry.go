package wire

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/penstock-data/penstock/state/retry"
)

const (
	maxMalformed = 3  // broken answers to one request
	maxThrottles = 12 // 429 answers to one request
	maxRenewals  = 2
)

var (
	// Half of the wait between two tries of a request is random, so that clients that failed together do not retry
	// together.
	requestRetry = retry.Policy{First: 500 * time.Millisecond, Longest: 30 * time.Second, Jitter: 0.5}

	tokenRetry = retry.Policy{First: time.Second, Longest: 30 * time.Second} // for calls to a token endpoint

	// These are the waits between two automatic sign-ins. After a sign-in without an answer, the first wait is shorter,
	// because the cause may pass by itself.
	refusedSignIn = retry.Policy{First: time.Hour, Longest: 24 * time.Hour}
	lostSignIn    = retry.Policy{First: time.Minute, Longest: 24 * time.Hour}
)

// longestTokenWait limits the wait that a Retry-After of a token endpoint can cause.
const longestTokenWait = 24 * time.Hour

// recover prepares another try. It returns the fault if the call ends, or nil to try again.
func (k *call) recover(ctx context.Context, fault *Error) *Error {
	if !fault.NotBefore.IsZero() {
		return fault // the wait is longer than MaxWait
	}
	switch fault.Class {
	case Throttled: // no pause is needed here: the next try waits until the governor permits requests again
		if k.throttles++; k.throttles >= maxThrottles {
			return fault
		}
	case Auth:
		return k.renew(ctx, fault)
	case Transient:
		if k.failures++; k.failures >= k.maxFailures(fault) {
			return k.reclassify(fault)
		}
		k.pause(ctx, k.failures, fault.retryAfter)
	case Malformed, NotData:
		if k.malformed++; k.malformed >= maxMalformed {
			return fault
		}
		k.pause(ctx, k.malformed, 0)
	default:
		return fault
	}
	return nil
}

// maxFailures returns how many transient faults end the call. A transient message with status 400 is usually a bug of
// the server. A host that was never reached is usually misspelled. These two faults end the call early. A probe ends
// with its first answer, unless the answer has a Retry-After.
func (k *call) maxFailures(fault *Error) int {
	most := k.c.opts.MaxAttempts
	switch {
	case k.probe && fault.Status != 0 && fault.retryAfter == 0:
		return 1
	case fault.Status == http.StatusBadRequest || k.neverReached(fault):
		return min(maxMalformed, most)
	}
	return most
}

// neverReached reports whether the host is unreachable and this client has never reached it.
func (k *call) neverReached(fault *Error) bool {
	return fault.unreachable() && !k.c.reached.Load()
}

func (k *call) reclassify(fault *Error) *Error {
	if fault.cut {
		fault.Class = Malformed
	}
	return fault
}

func (k *call) renew(ctx context.Context, fault *Error) *Error {
	if k.anonymous || fault.Status != http.StatusUnauthorized && !k.deadToken(fault) {
		return fault
	}
	switch {
	case k.renewals >= maxRenewals:
		return orDefault(k.renewal, fault)
	case k.renewed, k.c.tokenRefused.has(k.template):
		// A new token did not help, so this endpoint's 401 is not about the token. Other endpoints may accept the
		// token.
		k.c.tokenRefused.add(k.template)
		return fault
	}
	k.renewals++
	token, err := k.c.cred.Renew(ctx, Session{k.c}, k.token)
	k.c.redact.Add(k.c.cred.Secrets()...)
	switch {
	case err == nil && token != k.token:
		k.renewed = true
		return nil
	case err == nil, err == ErrNotRenewable: //nolint:errorlint // an error that wraps ErrNotRenewable gives a reason, which is reported below
		return fault
	case errors.Is(err, ErrNotRenewable):
		return k.withSpentReason(fault, err)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		k.renewal = e // the old token may still be valid for this call
		return k.recover(ctx, e)
	}
	fault.Err = err
	return fault
}

// deadToken reports whether a 403 of class Auth is about the token itself. Either the answer's challenge says so, or
// the credential is an OAuth grant.
func (k *call) deadToken(fault *Error) bool {
	_, grant := k.c.cred.(*OAuth)
	return fault.Status == http.StatusForbidden && (fault.Challenge == ChallengeToken || grant)
}

// pause waits after n failures, at least as long as the answer requests.
func (k *call) pause(ctx context.Context, n int, atLeast time.Duration) {
	retry.Sleep(ctx, max(requestRetry.Wait(n), min(atLeast, k.c.opts.MaxWait)))
}

// tokenWait returns the wait after n failed calls to a token endpoint.
func tokenWait(fault *Error, n int) time.Duration {
	if fault.retryAfter > 0 {
		return min(fault.retryAfter, longestTokenWait)
	}
	return tokenRetry.Wait(n)
}
