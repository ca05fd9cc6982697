//go:build !unix

package main

// hangups returns a nil channel, because these systems have no SIGHUP.
func hangups() (come <-chan struct{}, stop func()) { return nil, func() {} }
