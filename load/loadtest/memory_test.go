package loadtest

import "testing"

func TestMemory(t *testing.T) { Run(t, memoryDriver()) }
