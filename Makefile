# make demo | test | check | lint | bench | clean. Each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
SOURCES := $(shell find src python kernels -type f -not -name '*.pyc' 2>/dev/null)
PIP = $(if $(UV),VIRTUAL_ENV=$(CURDIR)/$(VENV) $(UV) pip,$(BIN)/python -m pip --disable-pip-version-check)
# Two cores are the smallest machine that must finish in time; torch's own pool gains nothing there.
export OMP_NUM_THREADS ?= 2
# Where this is set, every command would compile torch's sources again: seconds each time.
export PYTHONDONTWRITEBYTECODE :=
PROMPT := ROMEO:

.DELETE_ON_ERROR:
.PHONY: demo test check plants lint rust-tests python-tests bench clean

demo: $(VENV)/.wheel
	$(BIN)/mtpcore generate "$(PROMPT)" --max-tokens 120 --mtp-mode mtp --mtp-step 3

test: rust-tests lint python-tests check plants
	@echo "make test: everything passed"

rust-tests:
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings
	cargo test --locked

lint: $(VENV)/.test
	cargo clippy --locked --features python -- -D warnings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python -m mypy.stubtest mtpcore._core --mypy-config-file pyproject.toml

python-tests: $(VENV)/.test
	$(BIN)/python -m pytest

check: $(VENV)/.wheel
	$(BIN)/mtpcore check

plants: $(VENV)/.wheel
	$(BIN)/python tools/run_plants.py

bench: $(VENV)/.wheel
	cargo bench --locked
	$(BIN)/mtpcore bench

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make needs Python 3.11 or newer; set PYTHON=")'
	$(if $(UV),$(UV) venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))

# The wheel is built and installed as a user would get it; nothing is imported from the checkout.
$(VENV)/.wheel: $(VENV)/bin/python pyproject.toml Cargo.toml Cargo.lock README.md $(SOURCES)
	$(PIP) install --quiet "maturin>=1.9,<2"
	rm -rf $(VENV)/wheels
	$(BIN)/maturin build --quiet --release --locked --compatibility linux \
	  --interpreter $(BIN)/python --out $(VENV)/wheels
	$(PIP) uninstall $(if $(UV),,--yes) --quiet mtpcore
	$(PIP) install --quiet $(VENV)/wheels/mtpcore-*.whl
	touch $@

$(VENV)/.test: $(VENV)/.wheel
	for wheel in $(VENV)/wheels/mtpcore-*.whl; do $(PIP) install --quiet "$$wheel[test]"; done
	touch $@

clean:
	rm -rf $(VENV) target
