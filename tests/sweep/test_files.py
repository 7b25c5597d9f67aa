"""The op tests that a command line names."""

from __future__ import annotations

from pathlib import Path

import pytest

from optest.errors import UsageError
from optest.sweep.files import name_of, op_tests


@pytest.fixture
def tree(tmp_path):
    for name in (
        "ops/test_b.py",
        "ops/test_a.py",
        "ops/helper.py",
        "ops/deep/test_c.py",
        "ops/.hidden/test_d.py",
        "ops/__pycache__/test_e.py",
        "ops/venv/pyvenv.cfg",
        "ops/venv/test_f.py",
        "empty/readme.md",
        "beside/test_g.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["ops"], ["ops/deep/test_c.py", "ops/test_a.py", "ops/test_b.py"]),
        (["ops/test_b.py", "ops"], ["ops/test_b.py", "ops/deep/test_c.py", "ops/test_a.py"]),
        (["ops/helper.py"], ["ops/helper.py"]),
        (["ops/../ops/test_a.py", "./ops/test_a.py"], ["ops/test_a.py"]),
    ],
)
def test_files_are_as_named_and_folders_hold_theirs_once_in_order(tree, paths, expected):
    assert op_tests(map(Path, paths), tree) == expected


def test_what_lies_outside_the_folder_has_its_whole_path(tree):
    assert op_tests([Path("../beside")], tree / "ops") == [f"{tree}/beside/test_g.py"]


def test_a_link_is_called_as_it_was_named_and_is_the_same_file(tree):
    (tree / "ops/test_z.py").symlink_to(tree / "ops/test_a.py")
    assert op_tests([Path("ops/test_z.py"), Path("ops/test_a.py")], tree) == ["ops/test_z.py"]


def test_a_link_in_a_folder_does_not_take_the_place_of_the_file_beside_it(tree):
    (tree / "ops/test_0.py").symlink_to(tree / "ops/test_b.py")
    (tree / "ops/test_1.py").symlink_to(tree / "beside/test_g.py")
    expected = ["ops/deep/test_c.py", "ops/test_1.py", "ops/test_a.py", "ops/test_b.py"]
    assert op_tests([Path("ops")], tree) == expected


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere", "nowhere: there is no such file or folder"),
        ("empty", "empty: expected a folder with op tests"),
        ("empty/readme.md", "expected an op test"),
    ],
)
def test_a_path_that_cannot_be_used_is_named(tree, path, words):
    with pytest.raises(UsageError, match=words):
        op_tests([Path(path)], tree)


def test_a_name_is_the_same_from_wherever_it_is_asked(tree):
    assert name_of(tree / "ops" / ".." / "ops" / "test_a.py", tree) == "ops/test_a.py"
    assert name_of(Path(f"{tree}-other/test_a.py"), tree) == f"{tree}-other/test_a.py"
