#!/usr/bin/env bash
# Submit the whole pipeline to Slurm: the data, then the pre-training on NODES nodes, then fine-tuning and the report.
#   infra/slurm/submit.sh [NODES] [options of sbatch for every job, such as --time=8:00:00 --gres=gpu:8 --partition=gpu]
# BERTCORE_SBATCH_DATA, _PRETRAIN and _FINETUNE: further options of that job alone, where an option is given twice in place
# of the one for all: BERTCORE_SBATCH_DATA='--gres=none --partition=cpu'. Prints the three jobs' ids. Each works in this tree, which all nodes must see, with its .venv.
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v sbatch > /dev/null || { echo "error: no sbatch on this machine; run this where jobs are submitted" >&2; exit 1; }
nodes=1
if [[ "${1:-}" =~ ^[0-9]+$ ]]; then
  nodes=$1
  shift
fi
PATH="$PWD/.venv/bin:$PATH" python -c 'import importlib.util as util, sys; sys.exit(not util.find_spec("dvc"))' ||
  { echo "error: python has no DVC, neither in $PWD/.venv nor in PATH: make .venv with \`make doctor\`" >&2; exit 1; }
[[ "${BERTCORE_GRACE:-1}" =~ ^[1-9][0-9]*$ ]] ||
  { echo "error: BERTCORE_GRACE: found '$BERTCORE_GRACE', expected whole seconds, at least 1; correct the variable" >&2; exit 1; }
mkdir -p .slurm
options=("$@")
submitted=()
trap '((${#submitted[@]} == 0)) || scancel "${submitted[@]}"' ERR    # none of them, where one is refused

# after DEPENDENCY JOB-NAME NODES OPTIONS STAGES...: one job, which is requeued where it is stopped before its limit; its number is
# the last of `submitted`
after() {
  local dependency=$1 name=$2 count=$3 own id
  read -ra own <<< "$4"    # words, of which none is a pattern of files: --exclude=node[1-4]
  shift 4
  id=$(sbatch --parsable ${dependency:+--dependency=afterok:$dependency} --job-name="bertcore-$name" --nodes="$count" \
    --ntasks-per-node=1 --requeue --open-mode=append --output=.slurm/%x-%j.log --signal="B:TERM@$((${BERTCORE_GRACE:-120} * 3 / 2))" \
    --kill-on-invalid-dep=yes "${options[@]}" "${own[@]}" infra/slurm/job.sh "$@")
  submitted+=("${id%%;*}")    # behind a semicolon stands the cluster, where there are several
}

after "" data 1 "${BERTCORE_SBATCH_DATA:-}" mask contamination    # which reads the examples of all tasks: what cannot be used ends it here
after "${submitted[0]}" pretrain "$nodes" "${BERTCORE_SBATCH_PRETRAIN:-}" pretrain
after "${submitted[1]}" finetune 1 "${BERTCORE_SBATCH_FINETUNE:-}"
echo "data ${submitted[0]}, pre-training ${submitted[1]} on $nodes nodes, fine-tuning and report ${submitted[2]}; logs: .slurm/, state: squeue"
