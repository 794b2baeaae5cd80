# Every target does its own set-up in .venv; a machine needs Python (3.11 or later), pip and a C++20 compiler.
PYTHON ?= python3
BIN := .venv/bin
# Seconds where pip takes minutes.
INSTALL := $(BIN)/uv pip install -q --python $(BIN)/python
# The machine's own, which is compiled already; one in .venv would be, for four seconds.
PIP := $(PYTHON) -m pip --python $(BIN)/python
SOURCES := pyproject.toml CMakeLists.txt $(shell find native -name '*.?pp')
# The editable install knows modules by name: it is made again when there are others, not when they change.
MODULES := .venv/modules-$(shell find src -name '*.py*' ! -name '*.pyc' | LC_ALL=C sort | cksum | cut -d' ' -f1)
FUZZ_SECONDS ?= 600
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles what is imported when it is; pip would compile all of every package, a minute of one core.
export PIP_NO_COMPILE := 1
# The tests start the command hundreds of times: where this is set, each would compile Krill's sources anew.
unexport PYTHONDONTWRITEBYTECODE
# Nobody imports what will not run: each process of pytest would, for seconds.
JAX_TESTS = $(shell grep -rlx 'pytestmark = pytest.mark.jax' tests --include='test_*.py')
WITH_JAX = $(sort $(shell grep -rl 'mark\.jax' tests --include='test_*.py'))
SIDE_BY_SIDE := $(MAKE) --no-print-directory -j2 --output-sync=target

.PHONY: help demo test most-tests checks jax-tests lint unit fuzz short-fuzz soak bench pictures docs lock wheels \
	check-wheels sdist clean

help:
	@echo "make demo    a tokenizer, a dataset, a model, from the Python standard library's own sources"
	@echo "make test    everything that must hold: lint, types, a short fuzz run, all tests"
	@echo "make lint    ruff, the strict type check, clang-format"
	@echo "make bench   speed and memory beside the peers (minutes; nothing else should run)"
	@echo "make fuzz    noise for FUZZ_SECONDS=$(FUZZ_SECONDS) each: the native core under ASan and UBSan, then every reader; then hostile inputs"
	@echo "make soak    the long tests: gigabytes and hundreds of kills"
	@echo "make pictures  the pictures and measured tables of the documentation, from a real run (needs Chromium)"
	@echo "make docs    the documentation into site/, strictly"
	@echo "make wheels  wheels for Linux, x86-64 and aarch64, and the sdist, into dist/; \`make check-wheels\` tries them"

demo: .venv/tools
	@$(SIDE_BY_SIDE) .venv/demo
	@$(BIN)/python examples/demo.py

test: .venv/tools
	@$(SIDE_BY_SIDE) .venv/dev build/fuzz/krill_fuzz
	@$(MAKE) --no-print-directory -j2 most-tests checks
	@cat build/checks.log

# Three processes on two cores, and `checks` beside them: tests often wait for what they have started.
most-tests:
	$(BIN)/pytest -n 3 --dist worksteal -m "not soak and not jax" $(JAX_TESTS:%=--ignore=%)

# Beside the other tests, whose lines these would break: what they say is kept until they fail or all is done.
checks:
	@$(MAKE) --no-print-directory -j1 lint short-fuzz jax-tests >build/checks.log 2>&1 || { cat build/checks.log; exit 1; }

# In a process of their own: JAX's threads forbid the forks of other tests.
jax-tests:
	$(BIN)/pytest -m "jax and not soak" $(WITH_JAX)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	find native -name '*.?pp' | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/zizmor --offline --quiet --no-progress .github

unit: .venv/dev
	$(BIN)/pytest -n 2 tests/unit

fuzz: build/fuzz/krill_fuzz .venv/dev
	$< $(FUZZ_SECONDS)
	$(BIN)/python tests/fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/pytest -n 2 --dist worksteal tests/faults/test_faults_hostile.py

short-fuzz: build/fuzz/krill_fuzz
	$< 5

soak: .venv/dev
	$(BIN)/pytest -m soak
	KRILL_EXAMPLES=20 $(BIN)/pytest -n 2 --dist worksteal -m "hypothesis and not soak"

bench: .venv/dev
	$(BIN)/python benchmarks/run.py

pictures: .venv/dev
	$(BIN)/python docs/pictures/draw.py

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict

# Python 3.11 and 3.12 are looked for on the path, or fetched; the wheel of 3.12 is for all that are newer.
wheels: .venv/wheels sdist
	$(BIN)/python wheels/build.py

# In environments of their own without a compiler; for aarch64, and processors of 2008, under QEMU (on a Debian).
check-wheels: .venv/wheels
	$(BIN)/python wheels/check.py

# What is installed for development. PyTorch and what comes with it for GPUs are left out: that is the machine's choice.
lock: .venv/tools
	$(BIN)/uv pip compile -q pyproject.toml --extra dev --universal --python-version 3.11 --upgrade --no-emit-index-url \
		--no-annotate --custom-compile-command "make lock" | grep -Ev '^(torch|triton|nvidia-[a-z0-9-]*|cuda-[a-z0-9-]*)==' > requirements-dev.txt

sdist: .venv/tools
	$(BIN)/uv build -q --sdist --out-dir dist

clean:
	rm -rf .venv build demo dist site

.venv/tools: pyproject.toml
	@test -d .venv || $(PYTHON) -m venv --without-pip .venv
	$(PIP) install -q uv
	$(INSTALL) "scikit-build-core>=0.11" "nanobind>=2.7" cmake ninja pip
	@mkdir -p build
	@touch $@

$(MODULES): | .venv/tools
	@rm -f .venv/modules-*
	@touch $@

# What `pip install -e .[dev]` does, in parts that run side by side: Krill itself, which a compiler is busy with,
# and most of what others have made. Ninja is to take no job of this make for its own.
.venv/dev .venv/demo: .venv/%: .venv/%-packages .venv/native
	@touch $@

# Tools whose requirements contradict those of others, an older NumPy and transformers, or bring a PyTorch of their
# own: without them, they still write and read their formats, which is what the tests do.
FORMAT_READERS := mosaicml-streaming==0.13.0 python-snappy==0.7.3 cramjam==2.14.0 zstd==1.5.7.2 \
	litdata==0.2.76 lightning-utilities==0.15.3
.venv/dev: .venv/format-readers
.venv/format-readers: Makefile | .venv/dev-packages
	$(INSTALL) --no-deps $(FORMAT_READERS)
	@touch $@

# The build asks NumPy where its headers are: it has to be there whole, or not at all.
.venv/native .venv/torch .venv/dev-packages: | .venv/demo-packages

.venv/native: .venv/tools $(SOURCES) $(MODULES)
	MAKEFLAGS= $(PIP) install -q --no-deps --no-build-isolation -C cmake.define.KRILL_WERROR=ON -e .
	@touch $@

# PyTorch is looked for by pip, which may have been told of one without CUDA, as a machine without a GPU wants it;
# uv would not know. It unpacks what was found, in a fifth of pip's time, and later keeps what is there.
.venv/dev-packages: .venv/torch
.venv/torch: .venv/tools pyproject.toml
	@rm -rf build/wheels
	$(PIP) download -q --no-deps -d build/wheels $(shell grep -o 'torch==[0-9.]*' pyproject.toml)
	$(INSTALL) build/wheels/*.whl
	@rm -rf build/wheels
	@touch $@

.venv/wheels: .venv/tools pyproject.toml
	$(INSTALL) $(shell grep -oP '^wheels = \[\K.*(?=\])' pyproject.toml | tr -d ',')
	@touch $@

.venv/dev-packages: EXTRAS := dev
.venv/demo-packages: EXTRAS := train report
.venv/dev-packages .venv/demo-packages: .venv/tools pyproject.toml requirements-dev.txt
	$(INSTALL) -r pyproject.toml $(EXTRAS:%=--extra %) -c requirements-dev.txt
	@touch $@

build/fuzz/krill_fuzz: .venv/tools $(SOURCES)
	@$(BIN)/cmake -S . -B build/fuzz -G Ninja -DKRILL_FUZZ=ON -DKRILL_SANITIZE=ON -DKRILL_WERROR=ON -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja >build/fuzz.log
	@MAKEFLAGS= $(BIN)/cmake --build build/fuzz >>build/fuzz.log || { cat build/fuzz.log; exit 1; }
	@touch $@
