//go:build !unix

package main

// hangups returns no channel: there is no SIGHUP.
func hangups() (come <-chan struct{}, stop func()) { return nil, func() {} }
