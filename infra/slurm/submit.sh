#!/usr/bin/env bash
# Submit the whole pipeline to Slurm: the data, then the pre-training on NODES nodes, then fine-tuning and the report.
#   infra/slurm/submit.sh [NODES] [options of sbatch for every job, such as --time=8:00:00 --gres=gpu:8 --partition=gpu]
# Prints the three jobs' ids. Each works in this tree, which all nodes must see, with its .venv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v sbatch > /dev/null || { echo "error: no sbatch on this machine; run this where jobs are submitted" >&2; exit 1; }
nodes=1
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  nodes=$1
  shift
fi
mkdir -p .slurm

# after DEPENDENCY JOB-NAME NODES "OPTIONS" STAGES...: one job, which is requeued where it is stopped before its limit
after() {
  local dependency=$1 name=$2 count=$3 options=$4
  shift 4
  # shellcheck disable=SC2086
  sbatch --parsable ${dependency:+--dependency=afterok:$dependency} --job-name="bertcore-$name" --nodes="$count" \
    --ntasks-per-node=1 --requeue --open-mode=append --output=.slurm/%x-%j.log --signal="B:TERM@${BERTCORE_GRACE:-180}" \
    --kill-on-invalid-dep=yes $options infra/slurm/job.sh "$@"
}

prepare=$(after "" data 1 "$*" mask)
pretrain=$(after "$prepare" pretrain "$nodes" "$*" pretrain)
rest=$(after "$pretrain" finetune 1 "$*")
echo "data $prepare, pre-training $pretrain on $nodes nodes, fine-tuning and report $rest; logs: .slurm/, state: squeue"
