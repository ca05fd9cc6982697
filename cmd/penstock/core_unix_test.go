//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A crash leaves no core dump, which would contain secrets.
func TestNoCoreIsDumped(t *testing.T) {
	require.NoError(t, forbidCore())
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	require.Zero(t, limit)
}
