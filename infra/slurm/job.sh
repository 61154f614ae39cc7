#!/usr/bin/env bash
# One job of infra/slurm/submit.sh: the stages named as arguments (none: all) and what they need.
# `exec`: Slurm signals this process before the job's limit.
cd "${SLURM_SUBMIT_DIR:?infra/slurm/submit.sh submits this}" || exit 1
export PATH="$PWD/.venv/bin:$PATH" PYTHONUTF8=1
exec python -m infra.slurm.job "$@"
