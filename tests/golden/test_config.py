"""``config``: upstream's keys, ours, and what each refuses."""

from __future__ import annotations

import dataclasses
import enum
import logging

import pytest
import torch
from golden_kernels import axpy, axpy_specs, golden_axpy

from optest.golden.config import INAPPLICABLE, Config
from optest.golden.platform import device_of, targets_of
from optest.golden.rounds import Rounds
from optest.golden.runner import run
from optest.log import logger
from optest.native.triton_aot import TARGETS


class _Level(enum.Enum):
    WARN = 3


@pytest.mark.parametrize(
    ("given", "attribute", "value"),
    [
        ({}, "platform", None),
        ({"platform": "CUDA:1"}, "platform", "cuda:1"),
        ({"enable_chip_swimlane": 4}, "enable_chip_swimlane", 4),
        ({"enable_chip_swimlane": True}, "enable_chip_swimlane", True),
        ({"dump_passes": None}, "dump_passes", False),
        ({"log_level": "v3"}, "log_level", logging.INFO),
        ({"log_level": "null"}, "log_level", logging.CRITICAL + 1),
        ({"log_level": _Level.WARN}, "log_level", logging.WARNING),
        ({"log_level": 15}, "log_level", 15),
        ({"targets": "gfx942"}, "targets", ("gfx942",)),
        ({"targets": ["gfx942", "sm_90"]}, "targets", ("gfx942", "sm_90")),
        ({"seed": 3}, "seed", 3),
        ({"bench": True}, "bench", True),
        ({"bench": {"rounds": 7}}, "bench", Rounds(7, None)),
        ({"ring_heap": 1024, "strategy": 1}, "inapplicable", ("ring_heap", "strategy")),
    ],
)
def test_what_a_config_is_read_as(given, attribute, value):
    assert getattr(Config.of(given), attribute) == value


def test_a_ready_config_is_taken_as_it_is():
    ready = dataclasses.replace(Config(), seed=4)
    assert Config.of(ready) is ready
    assert Config.of(None) == Config()


@pytest.mark.parametrize(
    "given",
    [
        {"platform": 3},
        {"platform": " "},
        {"device_id": -1},
        {"device_id": True},
        {"device_id": "0"},
        {"enable_chip_swimlane": -1},
        {"log_level": "loud"},
        {"targets": [3]},
        {"targets": 3},
        {"seed": 1.5},
        {"seed": -1},
        {"seed": 2**32},
        {"bench": "yes"},
        {"bench": {"round": 3}},
    ],
)
def test_a_value_that_its_key_cannot_have_is_named(given):
    ((key, value),) = given.items()
    with pytest.raises(ValueError, match=key) as caught:
        Config.of(given)
    assert repr(value) in str(caught.value) or "round" in str(caught.value)


@pytest.mark.parametrize("given", [{"platfrom": 1}, {3: 1}, {"inapplicable": ()}, ["cpu"], "cpu"])
def test_what_nobody_knows_is_a_type_error(given):
    with pytest.raises(TypeError, match="config"):
        Config.of(given)


def test_inapplicable_keys_are_noted_once(recorded, caplog):
    logger.addHandler(caplog.handler)
    try:
        for _ in range(2):
            config = {"aicpu_thread_num": 3, "ring_task_window": 4}
            assert run(axpy, axpy_specs(), golden_axpy, config=config).passed
    finally:
        logger.removeHandler(caplog.handler)
    said = [r for r in caplog.records if "aicpu_thread_num" in r.getMessage()]
    assert len(said) == 1
    assert "ring_task_window" in said[0].getMessage()


def test_every_inapplicable_key_is_accepted():
    assert Config.of(dict.fromkeys(INAPPLICABLE)).inapplicable == tuple(sorted(INAPPLICABLE))


@pytest.mark.parametrize("name", [None, "cpu", "a2a3sim", "a5sim"])
@pytest.mark.skipif(torch.cuda.is_available(), reason="None is a GPU there")
def test_platforms_that_are_the_cpu(name):
    assert device_of(Config(platform=name)) == torch.device("cpu")


@pytest.mark.parametrize("name", ["a2a3", "a5", "cuda:99", "gfx1100", "sm_70", "tpu"])
def test_platforms_that_are_not_here(name):
    with pytest.raises(ValueError, match="not on this machine"):
        device_of(Config(platform=name))


@pytest.mark.gpu
@pytest.mark.parametrize("name", [None, "cuda", "cuda:0", "hip", "gpu"])
def test_platforms_that_are_the_gpu(name):
    assert device_of(Config(platform=name)) == torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("config", "targets"),
    [
        (Config(), ()),
        (Config(platform="gfx942"), ()),
        (Config(targets=("sm_90",)), ("sm_90",)),
        (Config(compile_only=True), TARGETS),
        (Config(compile_only=True, platform="cpu"), TARGETS),
        (Config(compile_only=True, platform="gfx942"), ("gfx942",)),
        (Config(compile_only=True, platform="gfx942", targets=("sm_90",)), ("sm_90",)),
    ],
)
def test_what_is_compiled_for(config, targets):
    assert targets_of(config) == targets
