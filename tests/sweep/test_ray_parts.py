"""The Ray executor's parts that need no cluster: shares, kinds of node, the code that travels."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optest.errors import UsageError
from optest.sweep import ray_code
from optest.sweep.ray_cluster import Kind, kinds_of
from optest.sweep.ray_code import Code
from optest.sweep.ray_shares import Shares, Task


def tasks(*seconds, group="a"):
    return [Task(n, n, group, each) for n, each in enumerate(seconds)]


def items(share):
    return [task.item for task in share]


@given(st.data())
def test_every_task_is_handed_out_once_unless_it_is_lost_and_then_once_more(data):
    # A task that two stations run, or that none does.
    groups = st.sampled_from("abc")
    seconds = data.draw(st.lists(st.floats(0, 100), max_size=40))
    shares = Shares([Task(n, n, data.draw(groups), s) for n, s in enumerate(seconds)])
    handed: list[int] = []
    given_up: list[int] = []
    while share := shares.take(data.draw(st.integers(0, 5))):
        if data.draw(st.booleans()):
            running = data.draw(st.sets(st.sampled_from(items(share))))
            given_up += items(shares.lost(share, running or {share[0].key}))
        else:
            handed += items(share)
    assert sorted(handed + given_up) == list(range(len(seconds)))
    assert len(shares) == 0


def test_the_longest_is_handed_out_first_and_what_was_given_back_keeps_its_place():
    shares = Shares(tasks(9, 5, 1, 1))
    first, second = shares.take(2), shares.take(2)
    assert (items(first), items(second)) == ([0], [1])
    shares.give_back(first)
    assert items(shares.take(2)) == [0]


def test_shares_shrink_so_that_no_station_is_left_with_much_at_the_end():
    shares = Shares(tasks(*[1.0] * 900))
    sizes = []
    while share := shares.take(3):
        sizes.append(len(share))
    assert sizes[0] == 100
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-3:] == [1, 1, 1]
    assert len(sizes) < 60, "each share starts a worker"


def test_a_share_stays_with_one_script():
    mixed = [Task(n, n, "ab"[n % 2], 1.0) for n in range(40)]
    assert {task.group for task in Shares(mixed).take(1)} == {"a"}


def test_what_was_lost_once_goes_alone_and_is_not_tried_a_third_time():
    shares = Shares(tasks(1, 1, 1, 1, 1, 1, 1, 1, 1))
    share = shares.take(1)
    assert items(share) == [0, 1, 2]
    assert shares.lost(share, {1}) == []
    assert items(shares.take(1)) == [0, 2, 3], "the lost one took others along"
    alone = shares.take(1)
    assert items(alone) == [1]
    assert items(shares.lost(alone, {1})) == [1]


NODES = [
    {"CPU": 8.0, "GPU": 8.0, "gfx942": 8.0, "memory": 1e9, "node:1": 1.0},
    {"CPU": 4.0, "sm_90": 1.0, "GPU": 4.0},
    {"CPU": 2.0, "cpu": 1.0, "licence": 1.0},
]


@pytest.mark.parametrize(
    ("nodes", "asked", "want"),
    [
        (NODES, (), [Kind("cpu", "cpu"), Kind("gfx942", "gfx942", 1, 1, 8),
                     Kind("sm_90", "sm_90", 1, 4)]),
        (NODES, ("licence",), [Kind("licence", "licence")]),
        (NODES, ("GPU",), [Kind("GPU", "GPU", beside=8)]),
        ([{"CPU": 8.0}, {"CPU": 4.0}, {"node:head": 1.0}], (), [Kind("", "CPU", 4.0)]),
    ],
)  # fmt: skip
def test_kinds_are_what_is_named_as_an_arch_or_what_was_asked_for(nodes, asked, want):
    assert kinds_of(nodes, asked) == want


def test_a_kind_that_no_node_has_is_named_with_those_there_are():
    with pytest.raises(UsageError, match=r"'gfx950'.*gfx942.*licence"):
        kinds_of(NODES, ["gfx950"])


@pytest.mark.parametrize(("kind", "want"), [
    (Kind("gfx942", "gfx942"), 8),
    (Kind("", "CPU", 4.0), 3),
])  # fmt: skip
def test_slots_are_what_the_living_nodes_can_hold(kind, want):
    assert kind.slots(NODES) == want


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "project"
    for name in (
        "op_tests/test_a.py",
        "op_tests/__pycache__/test_a.pyc",
        "lib/helper.py",
        ".venv/lib/big.py",
        ".optest/results.sqlite",
        "data/large.bin",
        "new.py",
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "outside.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "secret.py").write_text("secret")
    return root


def travels(code, folder):
    folder.mkdir()
    staged, _ = code.stage(folder)
    return {str(file.relative_to(staged)) for file in staged.rglob("*") if file.is_file()}


def test_a_project_travels_without_what_git_ignores(project, tmp_path):
    (project / ".gitignore").write_text("data/\n__pycache__/\n")
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    code = Code.around(project / "op_tests")
    assert code.root == project, "the folder of the op tests alone would lack its helpers"
    assert code.folder_there == "op_tests"
    # .venv and .optest are not ignored here, and stay all the same.
    assert travels(code, tmp_path / "s") == {"op_tests/test_a.py", "lib/helper.py", "new.py"}


def test_outside_a_repository_the_folder_travels_alone(project, tmp_path):
    code = Code.around(project)
    assert travels(code, tmp_path / "s") == {
        *("op_tests/test_a.py", "lib/helper.py", "new.py", "data/large.bin"),
    }


def test_optest_comes_along_as_its_wheel_lays_it_out(project, tmp_path):
    (tmp_path / "s").mkdir()
    _, modules = Code.around(project).stage(tmp_path / "s")
    names = {module.name for module in modules}
    if not modules:
        pytest.skip("optest is installed, not a checkout: nodes have it as well")
    assert names == {"optest", "aiter_ref"}
    assert (tmp_path / "s/optest/_csrc/harness.cpp").is_file()


def test_what_is_too_large_to_travel_is_named(project, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_code, "_LARGEST_BYTES", 1 << 20)
    (project / "data/large.bin").write_bytes(bytes(3 << 20))
    with pytest.raises(UsageError, match=r"data/large.bin \(3 MiB\)"):
        Code.around(project).stage(tmp_path / "s")


def test_files_have_the_same_place_on_a_node(project, tmp_path):
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    code = Code.around(project / "op_tests")
    assert code.file_there("test_a.py") == "test_a.py"
    assert code.file_there(str(project / "lib/helper.py")) == "../lib/helper.py"
    with pytest.raises(UsageError, match="lies outside"):
        code.file_there(str(tmp_path / "secret.py"))
