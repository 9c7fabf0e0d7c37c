# `make run` and `make test` install missing packages (tools/packages.txt), build, and run.
# Progress goes to stderr, so `make -s run` prints only the program's output on stdout.
.DEFAULT_GOAL := build
.NOTPARALLEL:
.SUFFIXES:
SHELL := /bin/bash

PREFIX      ?= /usr/local
export JOBS ?= $(shell nproc 2>/dev/null || echo 2)
CELLA       := build/release/bin/cella

define DEMO
import os, socket, sys
print(f"Hello from Python {sys.version.split()[0]}, pid {os.getpid()}, uid {os.getuid()}")
print("I see:", *sorted(os.listdir("/")))
try:
    socket.create_connection(("1.1.1.1", 53), timeout=1)
    print("network: reachable")
except OSError as error:
    print("network:", error.strerror or error)
endef

# CODE is text of the user and may contain anything, $(shell ...) included. It is passed to cella in an environment variable,
# so that neither make nor the shell expands it. (make drops leading blanks.)
unexport CODE
export CELLA_MAKE_CODE := $(or $(value CODE),$(DEMO))

.PHONY: build run check test test-long soak test-vm bench wheel test-wheel install uninstall format tidy lint clean help setup setup-test

build: setup  ## Build the release programs into build/release/bin/ (the default)
	@tools/build.sh release programs $(if $(wildcard build/release/build.ninja),,-DCELLA_BUILD_TESTS=OFF)

run: build  ## Run a demo in the sandbox, or your own: make run CODE='print(1)' [ARGS='--memory 64m']
	@$(CELLA) run --summary $(ARGS) -c "$$CELLA_MAKE_CODE"

check: setup-test  ## Test the essentials (three minutes), or one subject: make check ONLY=server
	@tools/check.sh '$(ONLY)'

test: lint  ## Test everything that CI tests: lint, clang-tidy, sanitizers, all suites
	@tools/build.sh release all -DCELLA_BUILD_TESTS=ON $(if $(filter true,$(CI)),-DCELLA_WERROR=ON)
	@$(MAKE) -s run
	@tools/check_completions.sh $(CELLA)
	@tools/run_tests.sh test

test-long: setup-test  ## Run the long tests: large numbers, second user, clean machines, QEMU
	@tools/build.sh release all -DCELLA_BUILD_TESTS=ON
	@tools/check_tidy.py --all build/release
	@tools/run_tests.sh long
	@tools/build.sh tsan library_threads_test && CELLA_HOME=$(CURDIR)/build/release build/tsan/bin/library_threads_test
	@sdk/python/tools/test_all.py --as-user
	@$(MAKE) -s test-wheel test-vm

soak: build  ## Open, use and close 10,000 sessions, and check that nothing remains (part of test-long)
	@tools/build.sh release cella-soak -DCELLA_BUILD_TESTS=ON
	@build/release/bin/cella-soak $(or $(SESSIONS),10000)

test-vm: build  ## Boot a kernel with cgroup v2 alone under QEMU, and test the limits there (part of test-long)
	@tools/setup.sh vm
	@tests/vm/run.sh

lint: setup-test  ## Check format, layers, spawns and the Python package
	@echo "== checking format, layers, spawns and the Python package" >&2
	@tools/check_format.sh
	@tools/check_layers.py --self-test
	@tools/check_layers.py
	@tools/check_spawns.py --self-test
	@tools/check_spawns.py
	@tools/check_python.sh

tidy: setup-test  ## Run clang-tidy over all files changed since they last passed
	@tools/build.sh release all -DCELLA_BUILD_TESTS=ON
	@tools/check_tidy.py --all build/release

bench: build  ## Measure this machine
	@$(CELLA) bench $(ARGS)

wheel: $(if $(WHEEL_PREFIX),,build)  ## Build the Python wheel, programs included, into dist/ (WHEEL_PREFIX=DIR: with the programs installed in DIR)
	@tools/setup.sh wheel
	@sdk/python/tools/make_wheel.py $(if $(WHEEL_PREFIX),--prefix '$(WHEEL_PREFIX)') dist

test-wheel: wheel  ## Install and use the wheel on systems with only Python (part of test-long)
	@tools/setup.sh wheel test-wheel
	@CELLA_BIN='$(or $(WHEEL_PREFIX),build/release)/bin/cella' PYTHONPATH=sdk/python/src \
	  /usr/bin/python3 -B -m pytest -q -p no:cacheprovider -c sdk/python/pyproject.toml --rootdir sdk/python \
	  sdk/python/tests/packaging/on_clean_machines.py

install: build  ## Install below PREFIX (/usr/local), staged in DESTDIR if given
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)' --strip

uninstall:  ## Remove the files of the last install from this tree
	@cmake -DMANIFEST=build/release/install_manifest.txt -DDESTDIR='$(DESTDIR)' -P cmake/Uninstall.cmake

format: setup-test  ## Format all C++
	@tools/check_format.sh --fix

clean:  ## Remove all build output
	rm -rf build dist

help:  ## Show this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	  printf '  make %-10s %s\n' "$$name" "$$text"; done

setup:
	@tools/setup.sh build

setup-test:
	@tools/setup.sh build test
