# The engine needs cgo and this tag; without them everything but DuckDB builds.
TAGS   := duckdb_arrow
GO     := go
PKGS   := ./...
# Tools have a module of their own: what they need is no dependency of the program.
TOOL   := $(GO) tool -modfile=tools
BIN    := bin/penstock
T      ?= 30s
TRIALS ?= 1000
SEEDS  ?= 1000
COUNT  ?= 100000
COMMA  := ,
# The engine exports no names: they would take 9 MB of each process. Addresses that the loader has set are
# read-only from the start (now).
LINK   := $(if $(filter Linux,$(shell uname -s)),-extldflags=-Wl$(COMMA)--no-export-dynamic$(COMMA)-z$(COMMA)now)
# What users run has no paths of this machine, no debug symbols (panics print their lines without them), loads at
# a random address, and names its commit and the date of it.
BUILD  := -trimpath -buildvcs=$(if $(shell git rev-parse --verify -q HEAD 2>/dev/null),auto,false) -buildmode=pie -ldflags '-s -w $(LINK)'
# The go command's id of a build depends on the folder of the modules, since cgo names it to the linker. A release
# has none, so that two builds of a commit are the same bytes; others have it, so that they are linked once.
NOID   := -buildid=
# What the race detector reads: the packages that start goroutines, but for the destinations, whose work is the
# engine's, for the dashboard, whose browser loses its patience with the detector, and for cmd/penstock, which puts
# these together (half an hour). Tests that repeat a concurrent thing of
# another test for many seeds, or one that is not concurrent, are left to make test.
RACED  := ./cmd/internal/fleet/... ./cmd/internal/pipeline $(addprefix ./cmd/internal/serve/,. access facts receive schedule signal) ./extract ./extract/wire/... ./state/...
SEEDED := ^(TestServers|TestUnchangedParents|TestSandbox(StoppedOverAndOver|Verify|Drift)|TestAnyStory|TestIncrementalMissesNothing|TestEditedLists|TestSentinel|TestCommitFailsAtEvery|TestReplaceFailsAtEvery|TestReference|TestBackfillProperty|TestEveryStream|TestVolatility|TestMatrix|TestPairsOfReferences|TestTooManyRecordsInAnAnswer|TestFaultBomb|TestKilledAnywhere|TestHostileLists|TestMovingLists)
SERVERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/penstock/servers

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: iceberg
iceberg: ## test the Iceberg tables, which other builds leave out
	$(GO) test -short -timeout 20m -tags $(TAGS),iceberg ./load/iceberg
	$(GO) test -short -timeout 20m -tags $(TAGS),iceberg -run '^TestScripts$$/^iceberg$$' ./cmd/penstock

.PHONY: build
build: ## build bin/penstock
	$(GO) build $(BUILD) -tags $(TAGS) -o $(BIN) ./cmd/penstock

.PHONY: demo
demo: build ## sandbox, a sync of everything into DuckDB, three queries, a second run that changes nothing
	$(BIN) sandbox demo --dir demo

.PHONY: test
test: ## all tests, the sweeps among them in their short forms, with what they need set up first
	@sh .ci/setup
	$(GO) test -short -timeout 20m -tags $(TAGS) $(PKGS)

.PHONY: sweep
sweep: ## all tests in full: every envelope with every pager, every kill of a renewal, a thousand lists that move (SEEDS=1000), generated
	@sh .ci/setup
	PENSTOCK_TEST_TRIALS=$(SEEDS) $(GO) test -timeout 120m -tags $(TAGS) $(PKGS)
	$(MAKE) generated

.PHONY: generated
generated: ## servers drawn from seeds, each read twice: the table equals the list, or the run says that it does not (COUNT=100000)
	PENSTOCK_TEST_TRIALS=$(COUNT) $(GO) test -timeout 600m -tags $(TAGS) -run '^TestServers$$' -count=1 -v ./cmd/internal/pipeline

.PHONY: lint
lint: tools ## format, vet of every build, golangci-lint (staticcheck among its linters), dead code, workflows
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet -tags $(TAGS) $(PKGS)
	$(GO) vet -tags $(TAGS),iceberg ./load/iceberg ./cmd/penstock
	CGO_ENABLED=0 $(GO) vet $(PKGS)
	$(TOOL)/go.mod golangci-lint run
	@dead=$$($(TOOL)/go.mod deadcode -test -tags $(TAGS),iceberg $(PKGS)) && test -z "$$dead" || { echo "$$dead"; exit 1; }
	$(TOOL)/actionlint/go.mod actionlint

.PHONY: tools
tools: # What cannot be fetched fails, after three attempts: the module proxy that has the program's modules has these.
	@for i in 1 2 3; do $(TOOL)/go.mod golangci-lint version >/dev/null && $(TOOL)/actionlint/go.mod actionlint -version >/dev/null && exit 0; sleep 5; done; \
		echo "the tools of tools/go.mod cannot be fetched or built" >&2; exit 1

.PHONY: prose
prose: ## words and sentences of comments, messages and pages that have a plainer form (DIR=extract for one folder)
	@$(GO) run ./cmd/internal/prose $(DIR)

.PHONY: check
check: lint prose vulncheck race ## everything that is no plain test: lint, known vulnerabilities, the race detector

.PHONY: race
race: ## the tests of what runs concurrently under the race detector, in random order
	$(GO) test -timeout 30m -tags $(TAGS) -race -shuffle=on -short -skip '$(SEEDED)' $(RACED)

.PHONY: bench
bench: build ## the figures this project promises, each beside its baseline from the same minutes
	$(GO) test -tags $(TAGS) -run '^TestFigures$$' -count=1 -timeout 60m -v ./cmd/penstock -figures
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 2s ./transform ./extract ./extract/wire ./state ./cmd/internal/serve/receive
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 1x -timeout 60m ./load/duckdb ./load/postgres ./load/parquet

.PHONY: crash
crash: ## kill -9 at random instants and at every named step, then run once: table = truth, for each destination (TRIALS=1000)
	$(GO) test -tags $(TAGS) -run '^TestCrash' -count=1 -timeout 240m -v ./cmd/penstock -trials $(TRIALS)

.PHONY: servers
servers: ## servers of the public registries, fetched once: their lists are read given only their paths, and their counts compared
	@sh .ci/servers $(SERVERS)
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealServers$$' -count=1 -timeout 10m ./cmd/penstock

.PHONY: oauth
oauth: ## authorization servers of the public registries, fetched once: sign-ins, renewals, faults and sign-outs with each
	@sh .ci/servers $(SERVERS) oauth
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealOAuth$$' -count=1 -timeout 20m ./cmd/penstock

.PHONY: stores
stores: ## object stores of the public registries, fetched once: conformance and faults of a lake in a bucket of each
	@sh .ci/servers $(SERVERS) stores
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^(TestBucket|TestStore)' -count=1 -timeout 60m ./load/parquet

.PHONY: fuzz
fuzz: ## each fuzz target in turn (T=30s)
	@sh .ci/fuzz $(T)

.PHONY: man
man: ## the manual: a page for every verb in bin/man, to be read with man -l
	$(GO) test -tags $(TAGS) -run '^TestManual$$' -count=1 ./cmd/penstock -man $(CURDIR)/bin/man

.PHONY: reference
reference: ## write docs/reference from the code: command line, configuration, tables, metrics, HTTP API
	$(GO) test -tags $(TAGS) -run '^TestReference$$' -count=1 ./cmd/penstock -update

.PHONY: docs
docs: ## the documentation as a site that can be searched, in bin/docs (needs Python 3; fetches Sphinx once)
	@sh .ci/docs $(CURDIR)/bin/docs

.PHONY: release
release: ## the files of a release in dist: archive, SBOM (CycloneDX), provenance (SLSA), sums; in a clean clone
	rm -rf dist
	$(MAKE) build BIN=dist/penstock LINK='$(LINK) $(NOID)'
	$(GO) run ./cmd/internal/release -bin dist/penstock -out dist LICENSE README.md CHANGELOG.md SECURITY.md
	rm dist/penstock

.PHONY: reproduce
reproduce: ## build the release of this commit in two folders: the same bytes
	@sh .ci/reproduce

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in what the program calls, where their database can be reached
	@sh .ci/vulncheck

.PHONY: postgres
postgres: ## the tests of the Postgres destination and state against other versions of the server (POSTGRES=FOLDER/bin for one of your own)
	@sh .ci/postgres $(SERVERS) $(POSTGRES)

.PHONY: images
images: ## pin the images of cmd/penstock/deploy: writes the digest that each tag has now in its registry
	@sh .ci/images cmd/penstock/deploy/Dockerfile cmd/penstock/deploy/compose.yaml

.PHONY: clean
clean: ## remove what the targets above made
	rm -rf bin demo
