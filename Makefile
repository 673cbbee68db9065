# make report: measure the two trainings that come with isoscope and write a page. make test: all tests and checks.
# Both set up .venv by themselves, once.
PYTHON ?= python3
RUN := .venv/bin/python
INSTALLED := .venv/.installed

.PHONY: report zoo gallery test quick golden test-all bench check types layers clean

report: $(INSTALLED)
	@$(RUN) -m isoscope sweep embedded --max-items 32 --batch-size 32 --query-rows 32 --sample 512 --out runs/report
	@$(RUN) -m isoscope report runs/report --out runs/report.html
	@echo "The report: $(CURDIR)/runs/report.html"

# The cache is the clone's own: `make clean` removes it.
export ISOSCOPE_CACHE ?= $(CURDIR)/.cache
# Tests start hundreds of processes; each would compile isoscope again if the environment forbids compiled files to be written.
export PYTHONDONTWRITEBYTECODE :=

SYMBOLS := rxnmapper rxnfp-pretrained rxnfp-ft rxnfp-ft-10k-25s
ZOO := smollm2-135m-instruct stories15m all-minilm-l6-v2 gte-small flan-t5-small-encoder $(SYMBOLS) antiberty \
  whisper-tiny.en moonshine-tiny dinov2-small resnet-50

# Every real model that installs by package name, on real text, reactions, residues, speech and photographs.
zoo: $(INSTALLED)
	@$(RUN) -m isoscope measure $(ZOO:%=package:%) $(SYMBOLS:%=--data %=package:reactions) --data antiberty=package:residues \
	  --data package:speech --data package:photographs --data embedded --max-items 100 --store sums --out runs/zoo
	@$(RUN) -m isoscope drift-test runs/zoo
	@$(RUN) -m isoscope report runs/zoo --out runs/zoo.html

# The pictures of docs/gallery.md and docs/metrics/, from real runs; half an hour on two cores.
gallery: $(INSTALLED)
	@$(RUN) tools/make_gallery.py
	@$(RUN) tools/draw_metrics.py
	@$(RUN) tools/make_docs.py

test: $(INSTALLED) check
	@$(RUN) -m isoscope fetch all-minilm-l6-v2 smollm2-135m-instruct whisper-tiny.en
	@$(RUN) tools/chromium.py
	$(RUN) -m pytest -n 2 --dist worksteal --durations=25

# The stored results that moving and renaming code must not change: docs/restructuring.md.
golden: $(INSTALLED)
	$(RUN) -m pytest tests/golden -m "" -n 2 --dist worksteal

test-all: $(INSTALLED) check
	@$(RUN) -m isoscope fetch --all
	@$(RUN) tools/chromium.py
	$(RUN) -m pytest -m ""

check: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	@$(MAKE) --no-print-directory -j 2 types layers

types:
	$(RUN) -m mypy

layers:
	$(RUN) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	$(RUN) tools/check_cycles.py

# For every edit: the parts that all others rest on, in under a minute.
quick: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m pytest -n 2 --dist worksteal tests/core tests/statistics tests/estimation tests/metrics tests/runs/test_stored_cell.py tests/runs/test_tables.py tests/test_contracts.py

bench: $(INSTALLED)
	$(RUN) benchmarks/one_site.py
	$(RUN) benchmarks/overhead.py
	$(RUN) benchmarks/attention.py
	$(RUN) benchmarks/matrix.py
	$(RUN) benchmarks/watch.py
	@$(RUN) -m isoscope fetch all-minilm-l6-v2
	$(RUN) benchmarks/memory.py .cache/models/all-MiniLM-L6-v2
	$(RUN) benchmarks/whole_command.py --phases

# torch first and by its exact version: anything looser fetches gigabytes for accelerators.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt torch==2.13.0
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables
	$(RUN) -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $@

clean:
	rm -rf .venv .cache runs
