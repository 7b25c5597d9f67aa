"""The conventional flags of a runnable golden file, and what of ``run`` they are."""

from __future__ import annotations

import argparse
from typing import Any


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that every golden file has; shapes and the like are the file's own."""
    parser.add_argument("-p", "--platform", help="cpu, cuda, cuda:N; the machine's own if left out")
    parser.add_argument("-d", "--device", type=int, default=0, help="number of the card")
    parser.add_argument("--targets", nargs="+", default=[], help="archs for --compile-only")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--runtime-dir", help="work_dir of an earlier run, to run its kernel again")
    parser.add_argument("--save-data", action="store_true", help="keep inputs and golden outputs")
    parser.add_argument("--golden-data", help="data folder of a run with --save-data, to replay")
    parser.add_argument("--enable-chip-swimlane", type=int, nargs="?", const=1, default=0)
    parser.add_argument("--dump-passes", action="store_true")


def run_options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of ``run`` that the flags stand for."""
    return {
        "config": {
            "platform": args.platform,
            "device_id": args.device,
            "enable_chip_swimlane": args.enable_chip_swimlane,
            "dump_passes": args.dump_passes,
            "targets": args.targets,
        },
        "compile_only": args.compile_only,
        "runtime_dir": args.runtime_dir,
        "save_data": args.save_data,
        "golden_data": args.golden_data,
    }
