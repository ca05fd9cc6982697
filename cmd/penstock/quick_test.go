//go:build unix

package main

import (
	"context"
	"os"
	"time"
)

// quick is the program with leases that are lost soon.
func quick() {
	if err := forbidCore(); err != nil {
		panic(err)
	}
	ctx, stop := withSignals(context.Background())
	life, err := time.ParseDuration(os.Getenv(lifeEnv))
	if err != nil {
		life = 2 * time.Second
	}
	a := &app{out: os.Stdout, err: os.Stderr, life: life}
	if step := os.Getenv(stepEnv); step != "" {
		a.step = signalAt(step)
	}
	code := a.execute(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// lifeEnv tells the quick program how long leases live without a sign of life.
const lifeEnv = "PENSTOCK_TEST_LIFE"

// stepEnv has the quick program signal itself at a step of a commit: see signalAt.
const stepEnv = "PENSTOCK_TEST_STEP"
