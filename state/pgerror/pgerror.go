// Package pgerror distinguishes the errors of Postgres servers and of the connections to them.
package pgerror

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
)

// Error codes of the server (SQLSTATE).
const (
	Shutdown       = "57P01" // an administrator has ended the session or stops the server
	UndefinedTable = "42P01"
	UndefinedName  = "3F000" // a schema does not exist
	LockTimeout    = "55P03"
	Internal       = "XX000"
)

// passing lists error codes, or the first characters of error codes. After these errors, a retry may succeed. The
// causes are too many connections, a server that stops or starts, a lost connection, a conflict with another
// transaction, or a timeout. After Internal, a retry may succeed only if another session has changed a table at the
// same time: see Transient.
var passing = []string{"53300", Shutdown, "57P02", "57P03", "57P05", "40001", "40P01", LockTimeout, "08", "25P03", "25P04", Internal}

// Code returns the server's error code, or "" if the error is not from the server.
func Code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// Transient reports whether a retry may succeed soon.
func Transient(err error) bool {
	c := Code(err)
	for _, prefix := range passing {
		if c != "" && strings.HasPrefix(c, prefix) {
			return c != Internal || strings.Contains(err.Error(), "concurrently")
		}
	}
	return Disconnected(err)
}

// Disconnected reports whether the connection is lost. The outcome of the last request is then unknown.
func Disconnected(err error) bool {
	var (
		dial *pgconn.ConnectError
		nerr net.Error
	)
	switch c := Code(err); {
	case errors.Is(err, context.Canceled), errors.As(err, &dial) && untrusted(err):
		return false
	case c == "" && errors.As(err, &dial):
		return true // even if the cause is a timeout, because the server may be suspended or the network broken
	case errors.Is(err, context.DeadlineExceeded):
		return false
	case c != "":
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P")
	case errors.As(err, &nerr), errors.Is(err, pgconn.ErrConnClosed):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || pgconn.SafeToRetry(err)
}

// refusedTLS is the text of the driver's error for a server without TLS. The driver has no type for this error.
const refusedTLS = "server refused TLS connection"

// untrusted reports whether a connection has failed because of TLS or a certificate. A retry would fail again.
func untrusted(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		record      tls.RecordHeaderError
		alert       tls.AlertError
	)
	return errors.As(err, &certificate) || errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &record) || errors.As(err, &alert) ||
		strings.Contains(err.Error(), refusedTLS)
}

// Shorten returns err unchanged, unless err says that connecting to a server has failed. In that case, it returns an
// error with a shorter text. The driver's text has one line for each attempt: for each address, with and without TLS.
// Shorten keeps only the last line. The text does not contain the password. // Invariant 5
func Shorten(err error, server string) error {
	e, ok := errors.AsType[*pgconn.ConnectError](err)
	if !ok {
		return err
	}
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if _, one, ok := strings.Cut(last, "`: "); ok && len(lines) == 1 { // the text names the user and the database, and then the cause after "`: "
		last = one
	}
	if e.Config.Password != "" { // the driver does not write the password, but the server's text may contain it
		last = strings.ReplaceAll(last, e.Config.Password, "[redacted]")
	}
	return &connectError{cause: err, text: "connect to " + server + last}
}

type connectError struct {
	cause error
	text  string
}

// Error returns the short text.
func (e *connectError) Error() string { return e.text }

// Unwrap returns the driver's error.
func (e *connectError) Unwrap() error { return e.cause }
