# DuckDB needs cgo and this tag. Without them, the program builds without DuckDB.
TAGS   := duckdb_arrow
GO     := go
PKGS   := ./...
# Linters and other tools have their own module, so that their dependencies are not in go.mod.
TOOL   := $(GO) tool -modfile=tools
BIN    := bin/penstock
T      ?= 30s
TRIALS ?= 1000
SEEDS  ?= 1000
COUNT  ?= 100000
COMMA  := ,
# --no-export-dynamic: the program exports no symbols. DuckDB's symbols would take 9 MB of memory in each process.
# -z now: the loader sets all addresses of library functions at the start and makes them read-only, so that an attacker
# cannot change them.
LINK   := $(if $(filter Linux,$(shell uname -s)),-extldflags=-Wl$(COMMA)--no-export-dynamic$(COMMA)-z$(COMMA)now)
# -trimpath: the program contains no paths of this machine. -s -w: no debug symbols; panics print line numbers
# nevertheless. pie: the program is loaded at a random address. buildvcs: the program contains the id and the date of
# its commit.
BUILD  := -trimpath -buildvcs=$(if $(shell git rev-parse --verify -q HEAD 2>/dev/null),auto,false) -buildmode=pie -ldflags '-s -w $(LINK)'
# A release has no build id. The id depends on the folder of the module cache, so two builds of a commit would have
# different bytes. Other builds have an id. Without an id, the go command would link them again each time.
NOID   := -buildid=
# make race tests the packages in RACED, which start goroutines or have locks. Without the other packages of these folders,
# less is compiled for the race detector. RACED does not contain these packages either:
#   - the destinations, because the database engines do most of their work
#   - the dashboard, because its browser tests would time out
#   - cmd/penstock, because its tests would take half an hour
# make race skips the tests in SEEDED: they repeat another test with many seeds, or test nothing concurrent.
RACED  := $(addprefix ./cmd/internal/,deltas execute fleet fleet/queue pipeline) $(addprefix ./cmd/internal/serve/,. access facts receive signal) ./extract ./extract/wire/... ./state ./state/postgres
SEEDED := ^(TestServers|TestUnchangedParents|TestSandbox(StoppedOverAndOver|Drift)|TestIncrementalMissesNothing|TestEditedLists|TestSentinel|TestCommitFailsAtEvery|TestReplaceFailsAtEvery|TestBackfillProperty|TestEveryStream|TestVolatility|TestMatrix|TestPairsOfReferences|TestTooManyRecordsInAnAnswer|TestFaultBomb|TestKilledAnywhere|TestHostileLists|TestMovingLists|TestLatency|TestConcurrency|TestFirstRun|TestPageOfTooMany|TestRandom(Parent|Incremental)Runs|TestLeases|TestFleet(TakesTurns|BesideOthers))|Conforms/journal_is_bounded
SERVERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/penstock/servers

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: iceberg
iceberg: ## test the Iceberg destination, which the usual build leaves out
	GOGC=400 $(GO) test -vet=off -short -timeout 20m -tags $(TAGS),iceberg ./load/iceberg
	GOGC=400 $(GO) test -vet=off -short -timeout 20m -tags $(TAGS),iceberg -run '^TestScripts$$/^iceberg$$' ./cmd/penstock

.PHONY: parts
parts: ## build programs and their release files; the lists of parts and the checksums must be right
	$(GO) test -vet=off -count=1 -timeout 10m -tags $(TAGS) ./cmd/internal/release

.PHONY: build
build: ## build bin/penstock
	$(GO) build $(BUILD) -tags $(TAGS) -o $(BIN) ./cmd/penstock

.PHONY: demo
demo: build ## show a sandbox, a sync into DuckDB, three queries, and a second run that changes nothing
	$(BIN) sandbox demo --dir demo

# Many tests wait for processes, servers and leases. Four packages at once, with four tests at once in each, keep two
# cores busy. GOGC=400: by default, the garbage collector would take a fifth of the time. -vet=off: make lint does what
# go vet does.
.PHONY: test
test: ## install what the tests need, then run all tests, the long ones in a short form
	@sh .ci/setup
	GOGC=400 $(GO) test -vet=off -short -timeout 20m -p 4 -parallel 4 -tags $(TAGS) $(PKGS)

.PHONY: sweep
sweep: ## run all tests in full, random tests with a thousand seeds (SEEDS=1000), then make generated
	@sh .ci/setup
	PENSTOCK_TEST_TRIALS=$(SEEDS) $(GO) test -timeout 120m -tags $(TAGS) $(PKGS)
	$(MAKE) generated

.PHONY: generated
generated: ## read random test servers, twice each: the table must equal the list, or the run must say that it does not (COUNT=100000)
	PENSTOCK_TEST_TRIALS=$(COUNT) $(GO) test -timeout 600m -tags $(TAGS) -run '^TestServers$$' -count=1 -v ./cmd/internal/pipeline

# golangci-lint runs all checks of go vet, but not for Iceberg: go vet checks the packages with files for Iceberg. The
# files for builds without DuckDB are compiled without the tag, but with cgo: with CGO_ENABLED=0, the compiler would
# compile all dependencies again. go list finds dependencies that need cgo.
.PHONY: lint
lint: tools ## check the format, run golangci-lint (with vet and staticcheck), compile without DuckDB, find dead code, check the workflows
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(TOOL)/go.mod golangci-lint run
	$(GO) vet -tags $(TAGS),iceberg ./load/iceberg ./cmd/penstock
	@$(GO) list -export -test ./cmd/penstock ./load/duckdb ./load/parquet >/dev/null
	@CGO_ENABLED=0 $(GO) list -deps $(PKGS) >/dev/null
	@dead=$$($(TOOL)/go.mod deadcode -test -tags $(TAGS),iceberg $(PKGS)) && test -z "$$dead" || { echo "$$dead"; exit 1; }
	$(TOOL)/actionlint/go.mod actionlint

.PHONY: manifests
manifests: ## check the Kubernetes manifests with the API of Kubernetes and of KEDA; fetches both APIs once
	@sh .ci/manifests

.PHONY: tools
tools: # fetch and build the tools, in three attempts at most
	@for i in 1 2 3; do $(TOOL)/go.mod golangci-lint version >/dev/null && $(TOOL)/actionlint/go.mod actionlint -version >/dev/null && exit 0; sleep 5; done; \
		echo "the tools of tools/go.mod cannot be fetched or built" >&2; exit 1

.PHONY: prose
prose: ## list words and sentences of comments, messages and pages that should be simpler (DIR=extract for one folder)
	@$(GO) run ./cmd/internal/prose $(DIR)

.PHONY: check
check: lint prose vulncheck race ## make lint, prose, vulncheck and race

.PHONY: race
race: ## run the tests of concurrent code under the race detector, in random order
	GOGC=400 $(GO) test -vet=off -timeout 30m -tags $(TAGS) -race -shuffle=on -short -skip '$(SEEDED)' $(RACED)

.PHONY: bench
bench: build ## measure speed and memory, each figure beside a baseline; fail if a promised ratio is missed
	$(GO) test -tags $(TAGS) -run '^TestFigures$$' -count=1 -timeout 60m -v ./cmd/penstock -figures
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 2s ./transform ./extract ./extract/jsondoc ./extract/wire ./state ./cmd/internal/serve/receive
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchtime 1x -timeout 60m ./load/duckdb ./load/postgres ./load/parquet

# -parallel 3: three kinds of destinations at once, because many trials wait for a stopped process.
.PHONY: crash
crash: ## kill runs at random moments and at every step; one more run must make the tables equal to the source (TRIALS=1000)
	GOGC=400 $(GO) test -vet=off -tags $(TAGS) -run '^TestCrash' -count=1 -parallel 3 -timeout 240m -v ./cmd/penstock -trials $(TRIALS)

.PHONY: servers
servers: ## fetch servers by other authors once; read their lists, with only the paths configured, and compare the counts
	@sh .ci/servers $(SERVERS)
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealServers$$' -count=1 -timeout 10m ./cmd/penstock

.PHONY: oauth
oauth: ## fetch authorization servers by other authors once; test sign-in, renewal, faults and sign-out with each
	@sh .ci/servers $(SERVERS) oauth
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestRealOAuth$$' -count=1 -timeout 20m ./cmd/penstock

.PHONY: inspect
inspect: ## fetch the inspector of the Model Context Protocol once; it calls the tools of penstock mcp and of penstock serve
	@sh .ci/servers $(SERVERS) inspector
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^TestInspector$$' -count=1 -timeout 10m ./cmd/penstock

.PHONY: axe
axe: ## fetch axe-core once; it must find no fault on any page of the dashboard, in either scheme
	@sh .ci/servers $(SERVERS) axe
	PENSTOCK_TEST_AXE=$(SERVERS)/npm/node_modules/axe-core/axe.min.js $(GO) test -run '^TestAxe$$' -count=1 -timeout 20m -v ./cmd/internal/serve/board

.PHONY: pictures
pictures: ## write the pictures of the dashboard in docs, from a run over the sandbox, in both schemes
	PENSTOCK_TEST_PICTURES=$(CURDIR)/docs/pictures $(GO) test -run '^TestPictures$$' -count=1 -timeout 20m ./cmd/internal/serve/board

.PHONY: stores
stores: ## fetch object stores by other authors once; test Parquet in a bucket of each
	@sh .ci/servers $(SERVERS) stores
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS) -run '^(TestBucket|TestStore)' -count=1 -timeout 60m ./load/parquet

.PHONY: catalogs
catalogs: ## fetch Spark and two REST catalogs once; test that Spark can maintain Iceberg tables, and test tables in both catalogs
	@sh .ci/servers $(SERVERS) catalogs
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS),iceberg -run '^(TestSpark|TestREST|TestVended|TestSeaweed)|^(TestConformance|TestShared.*|TestReadersBesideKills)$$/^rest' -short -count=1 -timeout 120m ./load/iceberg

.PHONY: readers
readers: ## fetch PyIceberg, Polars, Daft, DuckDB, Spark and Trino once; each must read the rows of Iceberg tables as they were written
	@sh .ci/servers $(SERVERS) readers
	PENSTOCK_TEST_SERVERS=$(SERVERS) $(GO) test -tags $(TAGS),iceberg -run '^TestEngines$$' -parallel 6 -count=1 -timeout 90m -v ./load/iceberg

.PHONY: dbt
dbt: build ## install dbt 1.10 and 1.11 once; run the project that penstock writes against a real DuckDB and a real Postgres
	@sh .ci/dbt $(SERVERS) $(BIN)

.PHONY: bi
bi: build ## fill Postgres and DuckDB from the sandbox; run the query of each Grafana panel; build the Observable page and open it (PICTURE=FILE)
	@sh .ci/servers $(SERVERS) observable
	@sh .ci/bi $(SERVERS) $(BIN) $(PICTURE)

.PHONY: fuzz
fuzz: ## run each fuzz target in turn (T=30s)
	@sh .ci/fuzz $(T)

.PHONY: man
man: ## write the manual, a page for every command, to bin/man (read it with man -l)
	$(GO) test -tags $(TAGS) -run '^TestManual$$' -count=1 ./cmd/penstock -man $(CURDIR)/bin/man

.PHONY: reference
reference: ## write docs/reference from the code: command line, configuration, tables, metrics, HTTP API
	$(GO) test -tags $(TAGS) -run '^TestReference$$' -count=1 ./cmd/penstock -update

.PHONY: docs
docs: ## build the documentation as a searchable site in bin/docs (needs Python 3; fetches Sphinx once)
	@sh .ci/docs $(CURDIR)/bin/docs

.PHONY: assets
assets: ## bundle the scripts of the dashboard with their libraries (needs Node.js and npm); the bundles are committed
	cd cmd/internal/serve/board/scripts && npm ci --ignore-scripts --no-audit --no-fund && node build.js

.PHONY: release
release: ## make the files of a release in dist: archive, packages, wheel, Homebrew formula, SBOM, provenance, checksums; use a clean clone
	rm -rf dist
	$(MAKE) build BIN=dist/penstock LINK='$(LINK) $(NOID)'
	@sh .ci/packages dist/penstock dist
	$(GO) run ./cmd/internal/release -bin dist/penstock -out dist README.md CHANGELOG.md SECURITY.md
	rm dist/penstock

.PHONY: packages
packages: build ## make a Debian and an RPM package of bin/penstock, in bin; install the first in an empty folder and start it
	rm -f bin/penstock*.deb bin/penstock*.rpm
	@sh .ci/packages $(BIN) bin

.PHONY: wheel
wheel: build ## make a Python wheel of bin/penstock, in bin
	rm -f bin/penstock-*.whl
	$(GO) run ./cmd/internal/release -wheel -bin $(BIN) -out bin

.PHONY: python
python: wheel ## install the wheel and what its tests need, once; test the Python package and its notebook
	@sh .ci/python $(SERVERS) bin/penstock-*.whl

.PHONY: reproduce
reproduce: ## build the release of this commit in two folders, and compare the bytes
	@sh .ci/reproduce

.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what the program calls, if their database can be reached
	@sh .ci/vulncheck

.PHONY: postgres
postgres: ## test the Postgres destination and state with other versions of Postgres (POSTGRES=FOLDER/bin for your own)
	@sh .ci/postgres $(SERVERS) $(POSTGRES)

.PHONY: images
images: ## write the current digest of each container image into cmd/penstock/deploy
	@sh .ci/images cmd/penstock/deploy/Dockerfile cmd/penstock/deploy/compose.yaml

.PHONY: clean
clean: ## remove bin and demo
	rm -rf bin demo
