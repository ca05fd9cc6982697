//go:build unix

package main

import (
	"context"
	"os"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/open"
)

// quick() runs penstock with short leases.
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

// lifeEnv is the environment variable that sets the lifetime of leases in the program penstock-quick. With 0s, the
// lifetimes are those of penstock.
const lifeEnv = "PENSTOCK_TEST_LIFE"

// stepEnv is an environment variable. When penstock-quick reaches the step of a commit that the variable names, it
// sends itself a signal: see signalAt().
const stepEnv = "PENSTOCK_TEST_STEP"
