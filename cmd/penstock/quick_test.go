//go:build unix

package main

import (
	"context"
	"os"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// quick runs penstock with short leases.
func quick() {
	if err := forbidCore(); err != nil {
		panic(err)
	}
	ctx, stop := withSignals(context.Background())
	life, err := time.ParseDuration(os.Getenv(lifeEnv))
	if err != nil {
		life = 2 * time.Second
	}
	a := &app{out: os.Stdout, err: os.Stderr, open: open.Opener{Life: life}}
	if step := os.Getenv(stepEnv); step != "" {
		a.open.Step = signalAt(step)
	}
	code := a.execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// lifeEnv is the variable with the lease lifetime of the quick program.
const lifeEnv = "PENSTOCK_TEST_LIFE"

// stepEnv is the variable with the step of a commit at which the quick program sends itself a signal: see
// signalAt.
const stepEnv = "PENSTOCK_TEST_STEP"
