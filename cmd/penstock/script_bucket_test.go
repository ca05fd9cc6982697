package main

import (
	"net/http/httptest"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"
)

// scriptBucket starts an S3 server with one bucket, and sets $STORE to the server's address. Usage: bucket NAME.
func scriptBucket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bucket NAME")
	}
	backend := s3mem.New()
	ts.Check(backend.CreateBucket(args[0]))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	ts.Defer(server.Close)
	ts.Setenv("STORE", server.URL)
}
