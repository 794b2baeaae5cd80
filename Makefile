# Every target does its own set-up in .venv; a machine needs Python (3.11 or later), pip and a C++20 compiler.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := pyproject.toml CMakeLists.txt $(shell find native -name '*.?pp')
# The editable install knows modules by name: it is made again when there are others, not when they change.
MODULES := .venv/modules-$(shell find src -name '*.py*' ! -name '*.pyc' | LC_ALL=C sort | cksum | cut -d' ' -f1)
FUZZ_SECONDS ?= 600
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint unit fuzz soak bench docs clean

help:
	@echo "make demo    the main job, end to end, on the Python standard library's own sources"
	@echo "make test    everything that must hold: lint, types, a short fuzz run, all tests"
	@echo "make lint    ruff and the strict type check"
	@echo "make bench   speed and memory beside the peers (minutes; nothing else should run)"
	@echo "make fuzz    the native core under ASan and UBSan for FUZZ_SECONDS=$(FUZZ_SECONDS)"
	@echo "make soak    the long tests: gigabytes and hundreds of kills"
	@echo "make docs    the documentation into site/, strictly"

demo: .venv/core
	@$(BIN)/python examples/demo.py

test: lint
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=5
	$(BIN)/pytest -n 2 --dist worksteal -m "not soak"

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: .venv/dev
	$(BIN)/pytest -n 2 tests/unit

fuzz: .venv/dev
	@$(BIN)/cmake -S . -B build/fuzz -G Ninja -DKRILL_FUZZ=ON -DKRILL_SANITIZE=ON -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja >build/fuzz.log
	@$(BIN)/cmake --build build/fuzz >>build/fuzz.log || { cat build/fuzz.log; exit 1; }
	build/fuzz/krill_fuzz $(FUZZ_SECONDS)

soak: .venv/dev
	$(BIN)/pytest -m soak

bench: .venv/dev
	$(BIN)/python benchmarks/run.py

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

clean:
	rm -rf .venv build demo site

$(MODULES):
	@test -d .venv || $(PYTHON) -m venv .venv
	@rm -f .venv/modules-*
	@touch $@

.venv/core: $(SOURCES) $(MODULES)
	$(BIN)/pip install -q "scikit-build-core>=0.11" "nanobind>=2.7" cmake ninja
	$(BIN)/pip install -q --no-build-isolation -e .
	@touch $@

.venv/dev: .venv/core
	$(BIN)/pip install -q torch==2.13.0
	$(BIN)/pip install -q --no-build-isolation -e ".[dev]"
	@mkdir -p build
	@touch $@
