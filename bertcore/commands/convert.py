"""`bertcore convert`."""

import argparse
from pathlib import Path

from bertcore.commands.onnx_scores import calibration, scores
from bertcore.compressed import read_json
from bertcore.errors import ConfigError
from bertcore.export import onnx
from bertcore.model.huggingface import CRF

EXAMPLES = """\
  bertcore convert models/finetuned/topic                  # writes topic.onnx
  bertcore convert models/finetuned/topic topic-int8.onnx --int8 --calibrate --examples data/examples/topic
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", type=Path, metavar="MODEL", help="what a stage saved, such as models/pretrained")
    help_of_path = "default: MODEL.onnx or MODEL-int8.onnx, here"
    parser.add_argument("path", type=Path, nargs="?", metavar="OUT.onnx", help=help_of_path)
    parser.add_argument("--int8", action="store_true", help="a quarter of the size; its numbers are others")
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="with --int8: find the scales of activations beforehand, on the training examples of --examples",
    )
    parser.add_argument(
        "--examples",
        type=Path,
        metavar="DIR",
        help="score the model and the file on the dev examples there (default with --int8: data/examples/TASK, if any)",
    )


def run(options: argparse.Namespace) -> None:
    path = options.path or Path(f"{options.directory.resolve().name}{'-int8' if options.int8 else ''}.onnx")
    examples = options.examples or Path("data/examples") / options.directory.resolve().name
    if options.calibrate and not (options.int8 and examples.is_dir()):
        missing = f"no directory {examples}" if options.int8 else "no --int8"
        raise ConfigError(
            f"--calibrate: found {missing}, expected --int8 and the examples of the task; give --examples DIR, as "
            "stage examples leaves them"
        )
    if options.examples is not None and not options.examples.is_dir():
        raise ConfigError(f"--examples: found no directory {examples}, expected one that stage examples has left")
    batches = calibration(options.directory, examples) if options.calibrate else None
    print(onnx.export(options.directory, path, int8=options.int8, examples=batches))
    if options.examples is not None or (options.int8 and examples.is_dir()):
        found = scores(options.directory, path, examples)
        chain = CRF in read_json(options.directory / "config.json")
        of_file = f"{path.name}{' with the chain of tags in config.json, which the file lacks' if chain else ''}"
        for metric, value in found["model"].items():
            print(f"{metric} on {examples}: {value:.4f} as a model, {found['onnx'][metric]:.4f} as {of_file}")
