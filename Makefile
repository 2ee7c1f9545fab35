# make run: the app with a worked plan; make test: everything a change must pass. Needs Python 3.11 or newer and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8501

.PHONY: run test lint docs bench wheel clean

run: $(VENV)/.ready
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: lint
	$(BIN)/pytest -n auto --dist loadfile

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.ready
	$(BIN)/python docs/build.py
	$(BIN)/python examples/refresh.py

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/deepseek_day6.py

wheel: $(VENV)/.ready
	$(BIN)/python -m build --wheel --no-isolation

$(VENV)/.ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "$(PYTHON) is older than Python 3.11: give another with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build
