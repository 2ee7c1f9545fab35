# make run: the app with a worked plan; make test: everything a change must pass.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PORT   ?= 8501

.PHONY: run test lint check docs bench clean

run: $(VENV)/.ready
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: $(VENV)/.ready lint
	$(BIN)/pytest -n auto

lint: $(VENV)/.ready
	$(BIN)/ruff check planner tests benchmarks app.py
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.ready
	$(BIN)/python -m planner.export.reference docs/reference

bench: $(VENV)/.ready
	$(BIN)/python benchmarks/search.py

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build
