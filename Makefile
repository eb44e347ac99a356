# The two commands that matter: `make demo` and `make test`. Both install what is missing first.

# The directory in which the tests of the dashboard find axe.
AXE = target/axe

.PHONY: help demo demo-clean test bench conformance faults cluster dictionaries-live object-cache php-table engines exactness fragments growth load-compare lossy seeds soak stress slow hostile upgrades import-compare fuzz plugin-versions plugin-live plugin-style no-skipped build packages packages-static packages-oci packages-oci-php packages-test lint check minimum-rust setup-build setup-packages setup-demo setup-test setup-bench \
	setup-conformance setup-seeds setup-faults setup-cluster setup-engines setup-exactness setup-plugin-versions

PORT ?= 8080
DEMO_ARGS = --port $(PORT) $(if $(WP),--wp $(WP))

help:
	@echo 'make demo             a real WordPress, served by Galley, on http://localhost:$(PORT)'
	@echo 'make demo WP=DIR      the same with a WordPress that you have'
	@echo 'make demo-clean       removes what the demo made'
	@echo 'make check            format, lints, licences, unit tests: five minutes after a build, installs nothing'
	@echo 'make test             everything: make check, end-to-end tests with real servers, fuzzing, documentation'
	@echo 'make bench            Galley next to its peers, in one run of 45 minutes (SCENARIO=http3: only those; SCENARIO=dictionary: compression dictionaries in Chromium; QUICK=1: about five; README=1: for the README)'
	@echo 'make seeds            the stacks of five published articles, rebuilt and measured beside Galley: 12 minutes (ONLY=4: one; QUICK=1: shorter)'
	@echo 'make conformance      the public cache suite on Galley and its peers (ONLY=galley: Galley alone; SUITE=DIR: a copy of it)'
	@echo 'make faults           kill -9, full disks, damaged files, broken upstreams: the long form (ONLY=kill: one part)'
	@echo 'make cluster          three nodes on networks of their own, harmed in 14 ways while pages are edited and read (ROUNDS=20, ONLY=partition)'
	@echo 'make engines          the tests of clusters and 16 rounds of `make cluster` with Valkey 8.0, 8.1 and 9.1 (ONLY=trixie: one of them)'
	@echo 'make exactness        edits a real WordPress and counts what is purged, too little and too much (ONLY=slug: one event; OBJECTS=1: with the object cache; WORDPRESS=sid: the one of a Debian release, or a folder)'
	@echo 'make exactness GENERATED=2000 SEED=1    random plugins and edits: fails if a kind of dependency that must hold is stale (PLUGIN=7 EDIT=3: one of them)'
	@echo 'make exactness AUDITED=1000             the audit on so many pages, 50 of which depend on files: fails if one pass does not find each of them'
	@echo 'make exactness PLUGINS=DIR EVENTS=DIR   the same measurement on any plugins and themes, with PHP scripts as edits (PAGES=80)'
	@echo 'make object-cache     what pages cost with each object cache, then 200 rounds of kill -9, SIGSTOP, reload, upgrade (ONLY=table, ROUNDS=20)'
	@echo 'make php-table        what a page that is not stored costs with the PHP that Galley runs and with other settings of PHP-FPM (ROUNDS=25 ONLY="jit preload")'
	@echo 'make fragments        what an edit costs PHP on a site of 3,000 posts whose pages share fragments (EDITS=500 PAGES=10000: random edits too; SECONDS=0: without load)'
	@echo 'make plugin-versions  the plugin in PHP 7.4 to 8.4, and WordPress 6.2 to 6.7 of npm, 6.8 of Debian trixie and 7.1 of sid (PHP=8.4 WORDPRESS=sid: one of each)'
	@echo 'make plugin-live WORDPRESS=sid  the end-to-end and browser tests of the plugin with one of these WordPresses, or a folder'
	@echo 'make dictionaries-live  Chromium loads posts by dictionary while they are edited and purged, and compares the bytes with those of PHP (LOADS=10000)'
	@echo 'make plugin-style     PHP_CodeSniffer on the plugin (PHPCS=PROGRAM: one that has the WordPress standard)'
	@echo 'make growth           what a hit costs while entries and connections grow (ONLY=entries: one part)'
	@echo 'make load-compare     galley load and other load generators in turns on the same targets: five minutes (OHA=PROGRAM RATE=1000 ROUNDS=5)'
	@echo 'make lossy            the time to a page over HTTP/2 and HTTP/3 at 100 ms and 2 % loss, as root (ROUNDS=5)'
	@echo 'make soak             5,000,000 requests, a tenth uncached through FastCGI (REQUESTS=200000: fewer)'
	@echo 'make stress           a WordPress in 256 MB: many misses, slow clients, killed PHP, crawls (ONLY=crawl: one part)'
	@echo 'make hostile          hostile input for long: generated streams next to nginx and hyper, the whole matrix of deception'
	@echo 'make fuzz             every parser of foreign bytes, ten minutes each, two at a time (SECONDS=60 TARGET=query: less)'
	@echo 'make import-compare   5,000 random servers of nginx, 2,000 hosts of Apache, imported: 20 requests each to both servers (SERVERS=200 HOSTS=100 SEED=7)'
	@echo 'make slow             4,000 clients from 200 addresses that are slow on purpose, and slowhttptest (CLIENTS=400: fewer)'
	@echo 'make upgrades         500 reloads and 50 upgrades under load, and 100 kills while upgrading: the long forms'
	@echo 'make build            the release binary, target/release/galley'
	@echo 'make packages         packages for Debian and Fedora with their checksums, in target/packages/out'
	@echo 'make packages-static  a binary that needs no library (musl), in an archive, in the same folder'
	@echo 'make packages-oci     an image for containers with that binary, as an OCI archive, made without a daemon'
	@echo 'make packages-oci-php the same with the Debian package and PHP-FPM; after make packages, as root'
	@echo 'make packages-test    installs, upgrades and removes them in a clean Debian with systemd, as root: two minutes'

# A static pattern rule, because make does not search implicit rules for phony targets.
setup-build setup-packages setup-demo setup-test setup-bench setup-conformance setup-seeds setup-faults setup-cluster setup-engines setup-exactness setup-plugin-versions: setup-%:
	@scripts/setup $*

build: setup-build
	cargo build --release --bin galley

packages: setup-packages
	@packaging/build

packages-static: setup-packages
	@packaging/static

packages-oci: packages-static
	@packaging/oci/build

packages-oci-php: setup-packages
	@packaging/oci/build php

packages-test: setup-packages
	@packaging/test/run
	@packaging/compose/test

demo:
	@scripts/demo $(DEMO_ARGS)

demo-clean:
	@cargo run --quiet --profile demo --package xtask -- demo-clean

lint:
	cargo fmt --all --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --log-level error check licenses bans sources; \
	else scripts/skipped licences 'cargo-deny is not installed: cargo install cargo-deny --locked'; fi
	@scripts/advisories
	@scripts/workflows

# Checks that need no server. Run `make test` after they pass.
check: lint
	cargo test --quiet --workspace --lib --bins
	cargo test --quiet --package galley-config --package galley-policy --package galley-http --tests
	cargo test --quiet --package galley --test layers --test docs --test manual

minimum-rust:
	@scripts/minimum-rust

# The checks of `make test` that did not run.
test: export GALLEY_SKIPPED = $(CURDIR)/target/skipped

no-skipped:
	@mkdir -p target && : >target/skipped

# What takes a minute comes first, what takes half an hour last.
test: no-skipped setup-test lint minimum-rust $(AXE)/node_modules/.package-lock.json
	phpunit --configuration wordpress-plugin/galley/tests/phpunit.xml
	@scripts/plugin-style
	@scripts/plugin-texts --check
	RUSTDOCFLAGS='-D warnings' cargo doc --quiet --workspace --no-deps --document-private-items
	cargo build --quiet --workspace --all-targets
	@packaging/kubernetes/test target/debug/galley
	@packaging/compose/parts
	cargo test --quiet --workspace --no-fail-fast
	fuzz/run
	@scripts/skipped --list

bench: setup-bench build
	@cargo build --quiet --release --package xtask
	@target/release/xtask bench --galley target/release/galley $(if $(QUICK),--quick) $(if $(README),--readme) $(foreach name,$(SCENARIO),--scenario $(name)) $(foreach name,$(ONLY),--only $(name))

seeds: setup-seeds build
	@cargo build --quiet --release --package xtask
	@target/release/xtask seeds --galley target/release/galley $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY)) $(if $(JSON),--json)

# Random configurations of nginx on nginx and on Galley: SERVERS=200 SEED=1 for fewer.
import-compare: setup-test
	cargo build --quiet --package galley --bin galley
	GALLEY_IMPORT_SERVERS=$(or $(SERVERS),5000) GALLEY_IMPORT_HOSTS=$(or $(HOSTS),2000) GALLEY_IMPORT_SEED=$(or $(SEED),1) cargo test --package galley-import --test property -- --nocapture

conformance: setup-conformance build
	@cargo build --quiet --release --package xtask
	@target/release/xtask conformance --galley target/release/galley $(if $(SUITE),--suite $(SUITE)) $(if $(ONLY),--only $(ONLY))

faults: setup-faults build
	@cargo build --quiet --release --package xtask
	@target/release/xtask faults --galley target/release/galley $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED))

cluster: setup-cluster build
	@cargo build --quiet --release --package xtask
	@target/release/xtask cluster --galley target/release/galley $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED))

# What pages cost with other object caches and with Galley's, then a real WordPress through PHP-FPM and the command line while Galley is
# paused, reloaded, upgraded and killed (debug builds). APCU=FILE: the extension, if PHP-FPM does not load it; WITH=DIR: a further plugin,
# such as WooCommerce. ONLY=table or ONLY=rounds: one of both.
object-cache: setup-cluster $(if $(filter rounds,$(ONLY)),,build)
ifneq ($(ONLY),rounds)
	@cargo build --quiet --release --package xtask
	@target/release/xtask object-cache --galley target/release/galley $(if $(APCU),--apcu $(APCU)) $(if $(WITH),--with-plugin $(WITH))
endif
ifneq ($(ONLY),table)
	@GALLEY_OBJECT_ROUNDS=$(or $(ROUNDS),200) cargo test --quiet --workspace --test e2e -- object_cache --nocapture
endif

dictionaries-live: setup-test
	@GALLEY_LOADS=$(or $(LOADS),10000) cargo test --quiet --workspace --test browser -- chromium_gets_second_pages --nocapture

php-table: setup-demo build
	@cargo build --quiet --release --package xtask
	@target/release/xtask php-table --galley target/release/galley $(if $(ROUNDS),--rounds $(ROUNDS)) $(foreach name,$(ONLY),--only $(name))

# All tests that use an engine, with engines other than Debian's Redis. Uses debug builds.
engines: setup-engines
	@cargo build --quiet --package galley --package xtask
	@set -e; for release in $(or $(ONLY),bookworm-backports trixie sid); do \
		export GALLEY_TESTKIT_ENGINE=$(CURDIR)/target/engines/$$release/valkey-server; \
		$$GALLEY_TESTKIT_ENGINE --version; \
		cargo test --quiet --package galley-cluster; \
		cargo test --quiet --package galley --test e2e -- cluster shared_limits; \
		cargo test --quiet --package galley --test acme -- cluster; \
		target/debug/xtask cluster --galley target/debug/galley --rounds $(or $(ROUNDS),16); \
	done

# A folder with a WordPress, or a Debian release, whose package is unpacked.
WORDPRESS_FOLDER = $(if $(wildcard $(WORDPRESS)/wp-load.php),$(abspath $(WORDPRESS)),$(CURDIR)/target/wordpress/$(WORDPRESS)/root/usr/share/wordpress)

# Another site: generated plugins, or those of a folder.
EXACTNESS_SITE = $(if $(GENERATED),generated --edits $(GENERATED) $(if $(SEED),--seed $(SEED)) $(if $(PLUGIN),--plugin $(PLUGIN)) $(if $(EDIT),--edit $(EDIT)))$(if $(AUDITED),audited --pages $(AUDITED))$(if $(PLUGINS),installed --plugins $(PLUGINS) --events $(EVENTS) $(if $(PAGES),--pages $(PAGES)))

exactness: setup-exactness build
	@cargo build --quiet --release --package xtask
	@$(if $(WORDPRESS),test -e $(WORDPRESS_FOLDER)/wp-load.php || scripts/setup wordpress $(WORDPRESS))
	@$(if $(WORDPRESS),GALLEY_TESTKIT_WORDPRESS=$(WORDPRESS_FOLDER)) $(if $(OBJECTS),GALLEY_EXACTNESS_OBJECTS=1) target/release/xtask exactness --galley target/release/galley $(if $(ONLY),--only $(ONLY)) $(if $(WITH),--with $(WITH)) $(if $(EXPLAIN),--explain) $(if $(COST),--cost) $(if $(JSON),--json $(JSON)) $(EXACTNESS_SITE)

fragments: setup-exactness build
	@cargo build --quiet --release --package xtask
	@target/release/xtask fragments --galley target/release/galley $(if $(POSTS),--posts $(POSTS)) $(if $(PAGES),--pages $(PAGES)) $(if $(EDITS),--edits $(EDITS)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RATE),--rate $(RATE)) $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(SEED),--seed $(SEED)) $(if $(NO_TABLE),--no-table) $(if $(EXPLAIN),--explain) $(if $(JSON),--json)

VERSIONS = target/plugin-versions

$(AXE)/node_modules/.package-lock.json: crates/galley/tests/dashboard/axe/package-lock.json
	@mkdir -p $(AXE)
	@cp crates/galley/tests/dashboard/axe/package.json crates/galley/tests/dashboard/axe/package-lock.json $(AXE)
	@npm ci --prefix $(AXE) --ignore-scripts --no-audit --no-fund
	@touch $@

$(VERSIONS)/node_modules/.package-lock.json: wordpress-plugin/galley/tests/versions/package-lock.json
	@mkdir -p $(VERSIONS)
	@cp wordpress-plugin/galley/tests/versions/package.json wordpress-plugin/galley/tests/versions/package-lock.json $(VERSIONS)
	@npm ci --prefix $(VERSIONS) --ignore-scripts --no-audit --no-fund
	@touch $@

plugin-live: setup-test setup-plugin-versions $(VERSIONS)/node_modules/.package-lock.json $(AXE)/node_modules/.package-lock.json
	@set -e; case '$(WORDPRESS)' in \
	[0-9]*|beta|nightly) folder=$(abspath $(VERSIONS)/wordpress-$(WORDPRESS)); \
	    wordpress-plugin/galley/tests/versions/unpack-wordpress $(VERSIONS) $(WORDPRESS) $$folder ;; \
	*) folder=$(WORDPRESS_FOLDER); test -e $$folder/wp-load.php || scripts/setup wordpress $(WORDPRESS) ;; \
	esac; \
	export GALLEY_TESTKIT_WORDPRESS=$$folder; \
	cargo test --workspace --test e2e -- wordpress::plugin; \
	cargo test --workspace --test browser

plugin-versions: setup-plugin-versions $(VERSIONS)/node_modules/.package-lock.json
	@scripts/setup wordpress trixie
	@scripts/setup wordpress sid
	@GALLEY_VERSIONS=$(VERSIONS) node wordpress-plugin/galley/tests/versions/run.mjs "$(PHP)" "$(WORDPRESS)"

plugin-style: setup-test
	@scripts/plugin-style

growth: setup-faults build
	@cargo build --quiet --release --package xtask
	@target/release/xtask growth --galley target/release/galley $(if $(ONLY),--only $(ONLY))

lossy: setup-test build
	@cargo build --quiet --release --package xtask
	@target/release/xtask lossy --galley target/release/galley $(if $(ROUNDS),--rounds $(ROUNDS))

load-compare: setup-build build
	@cargo build --quiet --release --package xtask
	@target/release/xtask load-compare --galley target/release/galley $(if $(OHA),--oha $(OHA)) $(if $(RATE),--rate $(RATE)) $(if $(ROUNDS),--rounds $(ROUNDS))

soak: setup-demo build
	@cargo build --quiet --release --package xtask
	@target/release/xtask soak --galley target/release/galley $(if $(REQUESTS),--requests $(REQUESTS)) $(if $(CONNECTIONS),--connections $(CONNECTIONS)) $(if $(JSON),--json)

stress: setup-demo $(if $(GALLEY),,build)
	@cargo build --quiet --release --package xtask
	@target/release/xtask stress --galley $(or $(GALLEY),target/release/galley) $(if $(ONLY),--only $(ONLY)) $(if $(SECONDS),--killed-for $(SECONDS)) $(if $(JSON),--json)

STREAMS ?= 50000

hostile: setup-test
	cargo build --quiet --package galley --all-targets
	GALLEY_HOSTILE_STREAMS=$(STREAMS) GALLEY_HOSTILE_SEED=$(or $(SEED),$(shell date +%s)) cargo test --package galley --test hostile -- --nocapture
	GALLEY_HOSTILE_LONG=1 cargo test --package galley --test e2e -- poison deception

fuzz: setup-test
	@FUZZ_FEATURES=config,cluster fuzz/run $(or $(SECONDS),600) $(TARGET)

# Runs the tests sequentially, because each of them uses the whole machine.
upgrades: setup-test
	cargo test --package galley --test e2e -- --ignored --nocapture --test-threads 1 five_hundred_reloads fifty_upgrades a_hundred_kills

slow: setup-test
	@GALLEY_SLOW=$(or $(CLIENTS),4000) cargo test --release --package galley --test e2e -- slow_attacks
