"""The names of launched kernels go with a candidate's timing, into the store and out of it."""

from __future__ import annotations

import csv
import json

from store_examples import FACTS, planned, result, timing

from optest.store.export import export

NAMES = ["void gemm<__nv_bfloat16, 128>(T*, int)", "=Memset (Device)"]


def test_names_of_kernels_are_stored_and_exported_with_their_candidate(sqlite, tmp_path):
    row = {"triton us": {**timing(), "kernels": NAMES}, "cpp us": {**timing(), "kernels": []}}
    run = sqlite.begin(FACTS)
    sqlite.record(run, result(1, planned=planned(1), row=row, checks=[]))
    [read] = sqlite.results(run)
    assert read.row["triton us"]["kernels"] == NAMES
    found = sqlite.find(run)
    export(sqlite, found, tmp_path / "out.jsonl")
    [line] = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(line)["row"]["triton us"]["kernels"] == NAMES
    export(sqlite, found, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        lines = {line["candidate"]: line for line in csv.DictReader(file)}
    assert json.loads(lines["triton"]["us.kernels"]) == NAMES
    assert lines["cpp"]["us.kernels"] == ""
