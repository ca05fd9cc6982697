//go:build !unix

package main

// hangups gives nothing where there is no SIGHUP.
func hangups() (come <-chan struct{}, stop func()) { return nil, func() {} }
