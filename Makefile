# What people and .ci/run type. `make help` lists the targets; each works on its own in a fresh clone.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-builtin-rules
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# A release sets VERSION; without it a binary tells its commit from its build information.
VERSION  ?=
# How long `make fuzz` spends on each target.
FUZZTIME ?= 30s
# Where `make demo` puts its installation repo; outside this clone, because it is a git repository of its own.
DEMO     ?= $(HOME)/plural-demo

# Everything but the race-enabled tests is built without cgo and with -trimpath, so that build, vet, lint and the tests
# of localkube share one set of compiled packages. Kubernetes alone takes minutes to compile.
USER_GOFLAGS := $(shell go env GOFLAGS)
export GOFLAGS     := $(strip $(USER_GOFLAGS) -trimpath)
export CGO_ENABLED := 0

MODULE  := github.com/pluralsh/plural
LDFLAGS := -s -w $(if $(VERSION),-X $(MODULE)/internal/buildinfo.version=$(VERSION))

# Without these the API server says v0.0.0, and charts that ask for a Kubernetes version refuse it.
KUBE         := k8s.io/component-base/version
KUBE_VERSION := $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' localkube/go.mod)
kube_ldflags  = -s -w -X $(KUBE).gitVersion=$(1) -X $(KUBE).gitMajor=1 -X $(KUBE).gitMinor=$(word 2,$(subst ., ,$(1)))
LOCALKUBE_SOURCES := $(shell find localkube -type f ! -name '*_test.go' ! -path '*/testdata/*')

export PLURAL_LOCALKUBE := $(CURDIR)/bin/localkube

# Tests of terraform modules take the program that PLURAL_TERRAFORM names, or terraform on PATH. Where there is neither they
# take OpenTofu, which builds from source.
TERRAFORM :=
ifeq ($(or $(PLURAL_TERRAFORM),$(shell command -v terraform)),)
TERRAFORM := .tools/tofu
export PLURAL_TERRAFORM := $(CURDIR)/$(TERRAFORM)
endif

# Tests that read manifests of others take them from the folder that PLURAL_CORPUS names, or from what make corpus brought. In CI, where
# no test is skipped, that is brought first.
CORPUS :=
ifeq ($(PLURAL_CORPUS),)
ifneq ($(or $(CI),$(wildcard .tools/corpus)),)
CORPUS := .tools/corpus
export PLURAL_CORPUS := $(CURDIR)/$(CORPUS)
endif
endif

# Tests that sign in take a second OpenID provider, a node program. Where there is no npm they skip, but not in CI.
OIDC_PROVIDER := $(if $(or $(CI),$(shell command -v npm)),.tools/oidc-provider)

GENERATORS := .tools/protoc-gen-go .tools/protoc-gen-go-grpc
PROTOS     := api/plural.proto api/tunnelapi/tunnel.proto
PROTOC     := protoc $(GENERATORS:%=--plugin=%) --go_opt=module=$(MODULE) --go-grpc_opt=module=$(MODULE)

##@ Use

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: plural plural-agent bin/localkube ## Build plural, plural-agent and localkube into bin/.

# The hub's page is a part of plural where there is npm. Without it the hub has no page, and says so.
PAGE := $(if $(or $(CI),$(shell command -v npm)),hubsvc/web/dist/index.html.gz)
PAGE_SOURCES := $(shell find web tools/web -type f ! -path 'web/node_modules/*')

.PHONY: web
web: hubsvc/web/dist/index.html.gz ## Build the hub's page from web/ (needs npm).

hubsvc/web/dist/index.html.gz: $(PAGE_SOURCES) web/node_modules/.package-lock.json
	cd tools/web && go run .

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

.PHONY: web-types
web-types: ## Write web/src/v1.ts from docs/api/openapi.json.
	cd tools/web && go run . -types ../../docs/api/openapi.json

.PHONY: plural plural-agent
plural: $(PAGE)
plural plural-agent:
	go build -ldflags '$(LDFLAGS)' -o bin/$@ ./cmd/$@

bin/localkube: $(LOCALKUBE_SOURCES)
	cd localkube && go build -ldflags '$(call kube_ldflags,$(KUBE_VERSION))' -o $(CURDIR)/$@ .

.PHONY: demo
demo: build ## Build, then bring up a hub, three local clusters and a sample service (DEMO=dir).
	bin/plural up --local '$(DEMO)'

##@ Check

.PHONY: test
test: build test-root test-localkube test-tools ## Run every test, against real API servers, git and NATS.

# The race detector runs on packages whose code or tests run concurrently, as CONCURRENT finds them. On the others it would only cost
# time, as on ./cli and ./test/...: their tests run the programs as child processes.
# It needs cgo, and its tests keep their source paths (no -trimpath). At exit it sleeps a second by default, which tests of git filters,
# that start themselves as many processes, would pay each time. Children that render are the built program: they are not watched.
# Vet is a part of make lint. All tests write to one folder, which is removed however they end. Its name is short, because sockets lie
# in it, and is the same for each run in a clone, because go test keeps results by it.
TEST_TMPDIR := $(or $(TMPDIR),/tmp)/t.$(firstword $(shell cksum <<<'$(CURDIR)'))
CONCURRENT  := ^[[:space:]]*go [[:alnum:]_.]*\(|^[[:space:]]*go func|\<errgroup\.|\<sync\.|\<atomic\.|\.Go\(func|t\.Parallel\(\)
.PHONY: test-root
test-root: $(CORPUS) plural plural-agent bin/localkube .tools/kustomize .tools/helm .tools/terraform-provider-recorded $(TERRAFORM) $(OIDC_PROVIDER)
	export TMPDIR='$(TEST_TMPDIR)' PLURAL_TEST_CHILD='$(CURDIR)/bin/plural-agent'; mkdir -p -m 700 "$$TMPDIR"; \
	trap 'chmod -R u+w "$$TMPDIR" || :; rm -rf "$$TMPDIR" || { sleep 5; rm -rf "$$TMPDIR"; } || :' EXIT; \
	watched=$$(grep -lrE --include='*.go' --exclude-dir={.git,localkube,test,tools,testdata} '$(CONCURRENT)' . | xargs dirname | sort -u | grep -vx ./cli | xargs go list); \
	GORACE=atexit_sleep_ms=10 CGO_ENABLED=1 GOFLAGS='$(USER_GOFLAGS)' go test -race -vet=off -timeout 40m $$watched; \
	go test -vet=off -timeout 40m $$(go list ./... | grep -vxF "$$watched")

# What a person runs before each commit. Short tests start no API server; each that is left out says so with -v.
CHANGED = $(shell git diff --name-only --diff-filter=d origin/HEAD -- '*.go' ':!localkube' 2>/dev/null; git ls-files -o --exclude-standard '*.go')
.PHONY: check
check: .tools/golangci-lint plural-agent ## Lint the packages that differ from origin, and run the tests that need no cluster.
	folders='$(sort $(patsubst %/,./%,$(dir $(filter-out localkube/% tools/%,$(CHANGED)))))'; \
	test -z "$$folders" || .tools/golangci-lint run $$folders
	PLURAL_TEST_CHILD='$(CURDIR)/bin/plural-agent' go test -short -vet=off -timeout 5m $$(go list ./... | grep -v '^$(MODULE)/test/')

# The oldest version of Kubernetes that we are for, the newest, and two between, beside the one of bin/localkube. Each is compiled once,
# which takes minutes.
SKEW_KUBES := 1.33.13 1.34.4 1.36.3 1.37.2
.PHONY: skew
skew: plural plural-agent bin/localkube $(SKEW_KUBES:%=.tools/localkube-%) ## Try earlier releases with this one, on each Kubernetes that we are for.
	for kube in bin/localkube $(SKEW_KUBES:%=.tools/localkube-%); do \
		PLURAL_LOCALKUBE="$(CURDIR)/$$kube" go test -vet=off -count=1 -v -timeout 10m ./test/skew | grep -E '^(skew|ok|FAIL)|_test\.go'; \
		PLURAL_LOCALKUBE="$(CURDIR)/$$kube" PLURAL_TEST_CHILD='$(CURDIR)/bin/plural-agent' go test -vet=off -count=1 -timeout 20m ./test/channel ./agent/apply; \
	done

.tools/localkube-1.%: tools/kube/build $(LOCALKUBE_SOURCES)
	tools/kube/build 1.$* $@ -ldflags '$(call kube_ldflags,v1.$*)'

.PHONY: corpus
corpus: .tools/corpus ## Bring the manifests of others that tests read, from GitHub, once.

.tools/corpus: .ci/corpus .ci/corpus.pins
	.ci/corpus $@

.PHONY: test-localkube
test-localkube: bin/localkube
	cd localkube && go test -vet=off -timeout 10m ./...

.PHONY: test-tools
test-tools:
	for tool in pictures web; do (cd tools/$$tool && go vet . && go test -vet=off .); done

.PHONY: lint
lint: .tools/golangci-lint $(PAGE) ## Run golangci-lint on both modules, and check the page's types; each linter's reason stands in .golangci.yml.
	.tools/golangci-lint run ./...
	cd localkube && ../.tools/golangci-lint run --config ../.golangci.yml ./...
	$(if $(PAGE),cd web && node_modules/.bin/tsc)

.PHONY: bench
bench: build .tools/remotedialer .tools/kustomize .tools/helm ## Measure; prints lines of the form "bench NAME VALUE UNIT".
	PLURAL_TEST_CHILD='$(CURDIR)/bin/plural-agent' PLURAL_BENCH_REMOTEDIALER='$(CURDIR)/.tools/remotedialer' \
		go test -p 1 -run "^$$" -bench . -benchtime 1x -timeout 30m ./test/e2e ./test/deploy ./test/tunnel ./workspace/solve ./workspace/compose ./installer/plan ./test/packages ./cli/simcmd/replay ./hubsvc/access ./hubsvc/auth

.PHONY: compare-health
compare-health: ## Compare our health rules' verdicts with other people's: DIR=argo-cd/resource_customizations, say.
	go run ./tools/health '$(DIR)'

.PHONY: scale
scale: plural ## Load a hub with simulated fleets, and measure it and its page; prints lines like bench, in some 25 minutes.
	go test -run "^$$" -bench . -benchtime 1x -timeout 45m ./test/scale
	@began=$$(date +%s); go test -count 1 -vet=off -timeout 10m ./test/page >/dev/null && echo "bench page_suite_s $$(($$(date +%s) - began)) s"

# A git work tree or a bare repository. REV, PATHS, API_VERSIONS, FORMAT=json, JOBS and TIME=1 may be given too.
REPO :=
.PHONY: compare
compare: .tools/kustomize .tools/helm ## Render all of REPO here and with kustomize and helm, and say what differs (REPO=dir).
	@go run ./cmd/rendercompare -kustomize '$(CURDIR)/.tools/kustomize' -helm '$(CURDIR)/.tools/helm' -repo '$(REPO)' \
		$(if $(REV),-rev '$(REV)') $(if $(PATHS),-paths '$(PATHS)') $(if $(API_VERSIONS),-api-versions '$(API_VERSIONS)') \
		$(if $(FORMAT),-format '$(FORMAT)') $(if $(JOBS),-jobs '$(JOBS)') $(if $(TIME),-time)

# What decides who is believed, and what is shown to whom. One package takes a minute or two: PKG=crypto/seal, say.
PKG := api/token api/bundle crypto/seal crypto/trust crypto/groups crypto/leakcheck crypto/verify crypto/sealer crypto/policy \
	agent/reserved hubsvc/access hubsvc/auth hubsvc/oidc hubsvc/signin hubsvc/join hubsvc/signing workspace/gitsource workspace/sealcheck
.PHONY: mutants
mutants: plural-agent .tools/gremlins ## Change the code of PKG in one place after another, and list the changes that no test notices.
	for pkg in $(PKG); do echo "$$pkg"; PLURAL_TEST_CHILD='$(CURDIR)/bin/plural-agent' \
		.tools/gremlins unleash --config tools/mutants/gremlins.yaml "./$$pkg" || exit 1; done

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZTIME (30s).
	@grep -rEo '^func Fuzz[A-Za-z0-9_]+' --include='*_test.go' --exclude-dir=localkube . | while IFS=: read -r file func; do \
		echo "fuzz $${func#func } in $$(dirname "$$file")"; \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime '$(FUZZTIME)' "$$(dirname "$$file")"; \
	done

.PHONY: check-generate
check-generate: $(GENERATORS) ## Fail when generated code differs from its source.
	@out=$$(mktemp -d) && trap 'rm -rf "$$out"' EXIT; \
	$(PROTOC) --go_out="$$out" --go-grpc_out="$$out" $(PROTOS) && \
	for file in $$(cd "$$out" && find . -name '*.pb.go'); do \
		diff -u -I '^//.*[[:space:]]protoc  ' "$$file" "$$out/$$file" || \
			{ echo "$$file is stale: run make generate" >&2; exit 1; }; \
	done

##@ Make

.PHONY: generate
generate: $(GENERATORS) reference ## Write api's *.pb.go from its *.proto (needs protoc), and the reference of the commands.
	$(PROTOC) --go_out=. --go-grpc_out=. $(PROTOS)

# Written anew, so that pages of commands that are gone go too. A test holds them to the commands.
.PHONY: reference
reference: ## Write docs/commands and docs/help from the commands.
	rm -rf docs/commands docs/help
	go run ./cmd/plural docs docs

# What goes beside the program into archives and packages. The same program writes the same bytes.
.PHONY: shipped
shipped: plural ## Write completions and manual pages for a release into .tools (VERSION=1.2.3).
	rm -rf .tools/completions .tools/man && mkdir -p .tools/completions
	for shell in bash zsh fish powershell; do bin/plural completion $$shell > .tools/completions/plural.$$shell; done
	bin/plural man .tools/man
	gzip -9n .tools/man/*.1

# It records what this build prints, on a fleet that is up for a minute: names of commits and pods are others each time.
.PHONY: pictures
pictures: build ## Draw docs/pictures from a recorded session of the real program.
	cd tools/pictures && go run . -programs '$(CURDIR)/bin' -out '$(CURDIR)/docs/pictures'

# From source, for a cluster of one's own before there is a release: no registry and no daemon. PLATFORMS="amd64 arm64" for both.
PLATFORMS := $(shell go env GOARCH)
IMAGES := dist/images
.PHONY: images
images: $(PAGE) ## Pack the images of hub and agent from this clone: OCI layouts and archives in dist/images.
	@rm -rf $(IMAGES) && mkdir -p $(IMAGES)
	@revision=$$(git rev-parse HEAD); created=$$(git log -1 --format=%cI); version=dev-$${revision:0:12}; \
	pack() { \
		local programs=(); \
		for arch in $(PLATFORMS); do \
			GOOS=linux GOARCH=$$arch go build -ldflags "-s -w -X $(MODULE)/internal/buildinfo.version=$$version" -o $(IMAGES)/.$$1-$$arch ./cmd/$$1; \
			programs+=("linux/$$arch=$(IMAGES)/.$$1-$$arch"); \
		done; \
		go run ./tools/release image --out $(IMAGES) --name "ghcr.io/pluralsh/$$1:$$version" --description "$$2" --revision "$$revision" \
			--created "$$created" "$${programs[@]}"; \
		rm $(IMAGES)/.$$1-*; \
	}; \
	pack plural "The hub of a plural fleet, and the command line"; \
	pack plural-agent "The agent that runs in each cluster of a plural fleet"

.PHONY: snapshot
snapshot: .tools/goreleaser ## Check the release configuration and build it for this machine into dist/.
	.tools/goreleaser check
	@$(MAKE) --no-print-directory check-release
	.tools/goreleaser build --snapshot --clean --single-target

# All that a tag ships, below dist/: what goreleaser builds, and what tools/release makes of it. A snapshot may be of anything.
SNAPSHOT :=
SIGN := $(if $(SNAPSHOT),--snapshot,--keyless)
.PHONY: release
release: .tools/goreleaser ## Make all that a tag ships, in dist/ (SIGN='--key FILE' or --keyless; SNAPSHOT=yes: of any commit).
	.tools/goreleaser release --clean --skip=publish $(if $(SNAPSHOT),--snapshot)
	go run ./tools/release finish $(SIGN)

# What is shipped for linux, built twice in two places, signed, pushed to a real registry, and read by programs of others.
.PHONY: release-check
release-check: .tools/goreleaser .tools/cosign .tools/helm ## Make a release here, and check it as those who install it would.
	tools/release/check.sh

# Where the version stands of which the packages of the hub and the agent are, and of which their images are.
RELEASED := $(foreach name,hub agent,templates/catalog/$(name)/package.yaml templates/catalog/$(name)/chart/Chart.yaml)

.PHONY: bump
bump: ## Write the next release's version into the packages of hub and agent (RELEASE=1.2.3).
	@[[ '$(RELEASE)' =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$$ ]] || { echo "name the version: make bump RELEASE=1.2.3" >&2; exit 1; }
	@sed -i.before -E -e 's/^(  version|version|appVersion): .*$$/\1: $(RELEASE)/' -e 's/^( +image: ghcr.io.*):.*$$/\1:$(RELEASE)/' $(RELEASED) && rm $(RELEASED:=.before)
	@$(MAKE) --no-print-directory check-release RELEASE='$(RELEASE)'

.PHONY: check-release
check-release: ## Fail when the packages of hub and agent are not of one version, or not of RELEASE.
	@found=$$(sed -nE -e 's/^(  version|version|appVersion): //p' -e 's/^ +image: ghcr.io.*://p' $(RELEASED) | sort | uniq -c); \
	want='$(RELEASE)'; version=$$(awk '{ print $$2 }' <<<"$$found"); \
	if [[ $$(awk '{ print $$1 }' <<<"$$found") != 8 || -n "$$want" && "$$version" != "$$want" ]]; then \
		echo "the packages of hub and agent are of" $$version "and not of one version$${want:+, $$want}: make bump RELEASE=$${want:-1.2.3}" >&2; exit 1; \
	fi

.PHONY: clean
clean: ## Remove what make built.
	rm -rf bin dist .tools web/node_modules hubsvc/web/dist/*.gz

.tools/golangci-lint: tools/lint/go.mod tools/lint/go.sum
	cd tools/lint && go build -o ../../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.tools/gremlins: tools/mutants/go.mod tools/mutants/go.sum
	cd tools/mutants && go build -o ../../$@ github.com/go-gremlins/gremlins/cmd/gremlins

.tools/goreleaser: tools/goreleaser/go.mod tools/goreleaser/go.sum
	cd tools/goreleaser && go build -o ../../$@ github.com/goreleaser/goreleaser/v2

# What verifies what is signed here, and signs what is verified here, when a release is checked.
.tools/cosign: tools/cosign/go.mod tools/cosign/go.sum
	cd tools/cosign && go build -ldflags '-s -w' -o ../../$@ github.com/sigstore/cosign/v3/cmd/cosign

# What kustomizations and charts that render here are compared with, in tests and by make compare.
.tools/kustomize: tools/kustomize/go.mod tools/kustomize/go.sum
	cd tools/kustomize && go build -o ../../$@ sigs.k8s.io/kustomize/kustomize/v5

.tools/helm: tools/helm/go.mod tools/helm/go.sum
	cd tools/helm && go build -ldflags '-s -w' -o ../../$@ helm.sh/helm/v4/cmd/helm

# What tests run terraform modules with, where this machine has no terraform.
TOFU := github.com/opentofu/opentofu
.tools/tofu: tools/tofu/go.mod tools/tofu/go.sum
	cd tools/tofu && go build -ldflags '-s -w -X $(TOFU)/version.dev=no' -o ../../$@ $(TOFU)/cmd/tofu

# What stands for the providers of clouds in tests of terraform modules.
.tools/terraform-provider-recorded: $(wildcard tools/recorded/*.go) tools/recorded/go.mod tools/recorded/go.sum
	cd tools/recorded && go build -ldflags '-s -w' -o ../../$@ .

# What tests sign in to, beside the provider that runs in their own process.
.tools/oidc-provider: test/support/idp/package.json test/support/idp/package-lock.json
	rm -rf $@.new && mkdir -p $@.new && cp $^ $@.new
	cd $@.new && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	rm -rf $@ && mv $@.new $@

.tools/protoc-gen-go: go.mod go.sum
	go build -o $@ google.golang.org/protobuf/cmd/protoc-gen-go

.tools/protoc-gen-go-grpc: tools/generate/go.mod tools/generate/go.sum
	cd tools/generate && go build -o ../../$@ google.golang.org/grpc/cmd/protoc-gen-go-grpc

# What benchmarks compare the way into a cluster with.
.tools/remotedialer: tools/peers/main.go tools/peers/go.mod tools/peers/go.sum
	cd tools/peers && go build -o ../../$@ .
