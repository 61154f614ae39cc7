# `make` alone says what there is. Nothing is needed but Python >= 3.11 and make; git is what DVC keeps its history in.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := python -m pytest -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.PHONY: help pretrain finetune compare doctor plan ui onnx test test-infra faults docs lint check clean

help:
	@echo "make pretrain   run the whole pipeline through its Prefect deployment: text -> encoder -> evaluated tasks -> reports/"
	@echo "make finetune   tasks of params.yaml on any model directory, without pre-training: make finetune MODEL=DIR [TASKS='a b']"
	@echo "make compare    several variants at one wall-clock budget: one table, and which to take for what (compare.yaml)"
	@echo "make doctor     look whether it can run here: versions, devices, memory, disk, what is there, servers, time"
	@echo "make plan       what this machine can pre-train in a given time, size by size: make plan BUDGET=2h"
	@echo "make ui         open the pages of Prefect (runs, logs), MLflow (parameters, curves) and the models (ask them)"
	@echo "bertcore        use a finished model: bertcore --help, after . $(BIN)/activate"
	@echo "make onnx       a saved model as ONNX, compared in ONNX Runtime: make onnx MODEL=models/pretrained [OUT=FILE.onnx] [INT8=1]"
	@echo "make test       run the tests, but for those marked slow"
	@echo "make test-infra run the tests of infra/ with what is there of Slurm, S3, PostgreSQL, Redis, Docker and Kubernetes; says what it skips"
	@echo "make faults     kill and damage real trainings many times over and write down what came of it (docs/faults.md)"
	@echo "make docs       write docs/params.md and docs/architecture.md from the code"
	@echo "make check      lint, types and all tests, the slow ones too: half an hour to an hour"
	@echo "make clean      remove what runs have made (data, models, reports, caches, databases), but not $(VENV)"
	@echo
	@echo "Every knob stands in params.yaml. After . $(BIN)/activate, \`dvc repro\` runs the same pipeline without any server, and"
	@echo "what is up to date is never run again by either. Set BERTCORE_DATA to the directory of the real data to test with it."

pretrain: $(VENV)/.installed
	@python -m flows.launch

MODEL = models/pretrained
finetune: $(VENV)/.installed
	@python -m flows.launch_finetune "$(MODEL)" $(TASKS)

FILE = compare.yaml
compare: $(VENV)/.installed
	@python -m flows.compare "$(FILE)"

doctor: $(VENV)/.installed
	@python -m flows.doctor

BUDGET = 2h
plan: $(VENV)/.installed
	@python -m tasks.doctor.budget -- "$(BUDGET)"

ui: $(VENV)/.installed
	@python -m flows.ui

OUT = $(notdir $(MODEL:/=))$(if $(INT8),-int8).onnx
onnx: $(VENV)/.installed-onnx
	@python -m bertcore convert "$(MODEL)" "$(OUT)" $(if $(INT8),--int8)

test: $(VENV)/.installed-dev
	$(PYTEST) -m "not slow"

test-infra: $(VENV)/.installed-infra
	BERTCORE_TEST_INFRA=1 python -m pytest tests/infra

faults: $(VENV)/.installed-dev
	python -m tests.faults.campaign

docs: $(VENV)/.installed
	python -m tasks.params_reference
	python -m tasks.module_reference

lint: $(VENV)/.installed-dev
	ruff check .
	ruff format --check .
	mypy

check: lint
	$(PYTEST)

# Of data/ and models/ only what stages write: the rest is the user's own.
clean:
	rm -rf $(addprefix data/,inputs corpus shards examples instances) $(addprefix models/,tokenizer pretrained checkpoints finetuned embedding)
	rmdir data models 2> /dev/null || true
	rm -rf predictions reports metrics mlartifacts mlflow.db* dvc_plots .checkpoints .compare .prefect .worktrees .slurm .dvc/cache .dvc/tmp
	git worktree prune 2> /dev/null || true
	rm -rf .mlflow.lock .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(VENV)/.installed: requirements.lock infra/install.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1), expected Python 3.11 or later; name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
	  exit 1; }
	$(PYTHON) -m venv $(VENV)
	@$(BIN)/python infra/install.py requirements.lock
	@touch $@

$(VENV)/.installed-onnx: $(VENV)/.installed requirements-onnx.lock
	@$(BIN)/python infra/install.py requirements-onnx.lock
	@touch $@

$(VENV)/.installed-infra: $(VENV)/.installed-dev requirements-infra.lock
	@$(BIN)/python infra/install.py requirements-infra.lock
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@$(BIN)/python infra/install.py requirements-dev.lock
	@touch $@
