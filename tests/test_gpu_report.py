import json
import platform
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers import load_script


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_script("gpu_report")


def test_what_is_finished_is_not_run_again_and_the_rest_goes_on(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = [
        script.Step(name="short", title="A short one", command="platform"),
        script.Step(name="failing", title="One that fails", command="platform_that_is_not_there"),
        script.Step(name="later", title="One that waits", command="platform", minutes=60),
    ]
    monkeypatch.setattr(script, "plan", lambda *_arguments, **_options: steps)
    monkeypatch.setattr(sys, "argv", ["gpu_report", str(tmp_path)])
    assert script.main() == 1
    assert "not finished: failing, later" in capsys.readouterr().out
    first = json.loads((tmp_path / "report.json").read_text())
    assert first["short"]["output"].startswith(platform.system())
    assert first["failing"]["code"] != 0
    assert first["later"] == {}
    page = (tmp_path / "report.md").read_text()
    assert page.index("## One that fails") < page.index("Not finished") < page.index("Not run yet.")
    assert script.main() == 1
    second = json.loads((tmp_path / "report.json").read_text())
    assert second["short"] == first["short"]
    assert second["failing"]["seconds"] > first["failing"]["seconds"]


def test_the_plan_takes_commands_that_exist(script: ModuleType, tmp_path: Path) -> None:
    from alphac4.cli import COMMANDS

    for tiny in (False, True):
        steps = script.plan(tmp_path, [Path("a b.txt")], tiny=tiny)
        assert len({step.name for step in steps}) == len(steps)
        for step in steps:
            program, *arguments = step.command.split()
            known = program in ("pytest", "experiments.gpu_speed")
            assert known or (program == "alphac4" and arguments[0] in COMMANDS)
        assert any("--positions 'a b.txt'" in step.command for step in steps)
