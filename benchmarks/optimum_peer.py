"""`optimum`'s model in an interpreter of its own, since it wants an older `transformers`: a line in, a line out.

    PYTHON optimum_peer.py MODEL THREADS LENGTH…

exports MODEL as optimum does, answers "ready", and then computes the logits of texts of these lengths for each line.
"""

import sys

import numpy as np
import onnxruntime
import torch
from optimum.onnxruntime import ORTModelForSequenceClassification


def main() -> None:
    directory, threads, *lengths = sys.argv[1:]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    model = ORTModelForSequenceClassification.from_pretrained(directory, export=True, session_options=options)
    generator = np.random.default_rng(1)
    rows = [generator.integers(5, model.config.vocab_size, int(length)) for length in lengths]
    print("ready", flush=True)
    for _ in sys.stdin:
        ids, mask = np.zeros((2, len(rows), max(map(len, rows))), dtype=np.int64)
        for place, row in enumerate(rows):
            ids[place, : len(row)], mask[place, : len(row)] = row, 1
        model(input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask)).logits.numpy()
        print("done", flush=True)


if __name__ == "__main__":
    main()
