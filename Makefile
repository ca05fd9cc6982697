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
# --no-export-dynamic: the program exports no names; those of DuckDB would take 9 MB of memory in each process.
# -z now: the loader sets all addresses at the start and then makes them read-only.
LINK   := $(if $(filter Linux,$(shell uname -s)),-extldflags=-Wl$(COMMA)--no-export-dynamic$(COMMA)-z$(COMMA)now)
# The program contains no paths of this machine and no debug symbols (panics print line numbers without them). It is
# loaded at a random address, and contains its commit and the commit's date.
BUILD  := -trimpath -buildvcs=$(if $(shell git rev-parse --verify -q HEAD 2>/dev/null),auto,false) -buildmode=pie -ldflags '-s -w $(LINK)'
# The go command's build id depends on the folder of the modules, because cgo passes that folder to the linker. A
# release has no build id, so that two builds of a commit are the same bytes. Other builds have one, because without
# it they would be linked each time.
NOID   := -buildid=
# RACED are the packages that make race tests: those that start goroutines. Left out are the destinations, because
# the engine does their work; the dashboard, because its browser tests would time out; and cmd/penstock, because its
# tests would take half an hour. SEEDED are the tests that make race skips: they repeat another test with many seeds,
# or test nothing concurrent.
RACED  := ./cmd/internal/fleet/... ./cmd/internal/pipeline $(addprefix ./cmd/internal/serve/,. access facts receive schedule signal) ./extract ./extract/wire/... ./state/...
SEEDED := ^(TestServers|TestUnchangedParents|TestSandbox(StoppedOverAndOver|Verify|Drift)|TestAnyStory|TestIncrementalMissesNothing|TestEditedLists|TestSentinel|TestCommitFailsAtEvery|TestReplaceFailsAtEvery|TestReference|TestBackfillProperty|TestEveryStream|TestVolatility|TestMatrix|TestPairsOfReferences|TestTooManyRecordsInAnAnswer|TestFaultBomb|TestKilledAnywhere|TestHostileLists|TestMovingLists)
SERVERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/penstock/servers

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: iceberg
iceberg: ## test the Iceberg destination, which the usual build leaves out
	$(GO) test -short -timeout 20m -tags $(TAGS),iceberg ./load/iceberg
	$(GO) test -short -timeout 20m -tags $(TAGS),iceberg -run '^TestScripts$$/^iceberg$$' ./cmd/penstock

.PHONY: build
build: ## build bin/penstock
	$(GO) build $(BUILD) -tags $(TAGS) -o $(BIN) ./cmd/penstock

.PHONY: demo
demo: build ## show a sandbox, a sync into DuckDB, three queries, and a second run that changes nothing
	$(BIN) sandbox demo --dir demo

# Many tests wait for processes, servers and leases: four packages at once, and four tests at once in each, keep two
# cores busy.
.PHONY: test
test: ## install what the tests need, then run all tests, sweeps in their short forms
	@sh .ci/setup
	$(GO) test -short -timeout 20m -p 4 -parallel 4 -tags $(TAGS) $(PKGS)

.PHONY: sweep
sweep: ## run all tests in full, those with seeds for a thousand seeds (SEEDS=1000), then make generated
	@sh .ci/setup
	PENSTOCK_TEST_TRIALS=$(SEEDS) $(GO) test -timeout 120m -tags $(TAGS) $(PKGS)
	$(MAKE) generated

.PHONY: generated
generated: ## read generated servers twice each: the table equals the list, or the run says that it does not (COUNT=100000)
	PENSTOCK_TEST_TRIALS=$(COUNT) $(GO) test -timeout 600m -tags $(TAGS) -run '^TestServers$$' -count=1 -v ./cmd/internal/pipeline

.PHONY: lint
lint: tools ## check format, vet every build, run golangci-lint (with staticcheck), find dead code, check workflows
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet -tags $(TAGS) $(PKGS)
	$(GO) vet -tags $(TAGS),iceberg ./load/iceberg ./cmd/penstock
	CGO_ENABLED=0 $(GO) vet $(PKGS)
	$(TOOL)/go.mod golangci-lint run
	@dead=$$($(TOOL)/go.mod deadcode -test -tags $(TAGS),iceberg $(PKGS)) && test -z "$$dead" || { echo "$$dead"; exit 1; }
	$(TOOL)/actionlint/go.mod actionlint

.PHONY: tools
tools: # fetch and build the tools, in three attempts at most
	@for i in 1 2 3; do $(TOOL)/go.mod golangci-lint version >/dev/null && $(TOOL)/actionlint/go.mod actionlint -version >/dev/null && exit 0; sleep 5; done; \
		echo "the tools of tools/go.mod cannot be fetched or built" >&2; exit 1

.PHONY: prose
prose: ## list words and sentences of comments, messages and pages that should be plainer (DIR=extract for one folder)
	@$(GO) run ./cmd/internal/prose $(DIR)

.PHONY: check
check: lint prose vulncheck race ## lint, prose, known vulnerabilities, the race detector

.PHONY: race
race: ## run the tests of concurrent code under the race detector, in random order
	$(GO) test -timeout 30m -tags $(TAGS) -race -shuffle=on -short -skip '$(SEEDED)' $(RACED)

.PHONY: bench
bench: build ## measure the figures that this project promises, each beside its baseline, in the same minutes
	$(GO) test -tags $(TAGS) -run '^TestFigures$$' -count=1 -timeout 60m -v ./cmd/penstock -figures
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 2s ./transform ./extract ./extract/wire ./state ./cmd/internal/serve/receive
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 1x -timeout 60m ./load/duckdb ./load/postgres ./load/parquet

.PHONY: crash
crash: ## kill runs at random instants and at every named step; one more run must make the tables right (TRIALS=1000)
	$(GO) test -tags $(TAGS) -run '^TestCrash' -count=1 -timeout 240m -v ./cmd/penstock -trials $(TRIALS)

.PHONY: servers
servers: ## fetch servers of other authors once, read their lists given only the paths, and compare the counts
	@sh .ci/servers $(SERVERS)
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealServers$$' -count=1 -timeout 10m ./cmd/penstock

.PHONY: oauth
oauth: ## fetch authorization servers of other authors once; test sign-ins, renewals, faults and sign-outs with each
	@sh .ci/servers $(SERVERS) oauth
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealOAuth$$' -count=1 -timeout 20m ./cmd/penstock

.PHONY: stores
stores: ## fetch object stores of other authors once; test a lake in a bucket of each, and its faults
	@sh .ci/servers $(SERVERS) stores
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^(TestBucket|TestStore)' -count=1 -timeout 60m ./load/parquet

.PHONY: fuzz
fuzz: ## run each fuzz target in turn (T=30s)
	@sh .ci/fuzz $(T)

.PHONY: man
man: ## write the manual, a page for every verb, to bin/man (read it with man -l)
	$(GO) test -tags $(TAGS) -run '^TestManual$$' -count=1 ./cmd/penstock -man $(CURDIR)/bin/man

.PHONY: reference
reference: ## write docs/reference from the code: command line, configuration, tables, metrics, HTTP API
	$(GO) test -tags $(TAGS) -run '^TestReference$$' -count=1 ./cmd/penstock -update

.PHONY: docs
docs: ## build the documentation as a searchable site in bin/docs (needs Python 3; fetches Sphinx once)
	@sh .ci/docs $(CURDIR)/bin/docs

.PHONY: release
release: ## make the files of a release in dist: archive, SBOM (CycloneDX), provenance (SLSA), sums; use a clean clone
	rm -rf dist
	$(MAKE) build BIN=dist/penstock LINK='$(LINK) $(NOID)'
	$(GO) run ./cmd/internal/release -bin dist/penstock -out dist LICENSE README.md CHANGELOG.md SECURITY.md
	rm dist/penstock

.PHONY: reproduce
reproduce: ## build the release of this commit in two folders, and compare the bytes
	@sh .ci/reproduce

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what the program calls, if their database can be reached
	@sh .ci/vulncheck

.PHONY: postgres
postgres: ## test the Postgres destination and state with other versions of the server (POSTGRES=FOLDER/bin for your own)
	@sh .ci/postgres $(SERVERS) $(POSTGRES)

.PHONY: images
images: ## pin each image of cmd/penstock/deploy to the digest that its tag has now
	@sh .ci/images cmd/penstock/deploy/Dockerfile cmd/penstock/deploy/compose.yaml

.PHONY: clean
clean: ## remove bin and demo
	rm -rf bin demo
