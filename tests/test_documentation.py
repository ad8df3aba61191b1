import re
import subprocess
from pathlib import Path

import pytest

import alphac4

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages() -> list[Path]:
    """Every Markdown file that the repository holds."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("lists the pages with git: install it, and run in a checkout")
    return [ROOT / name for name in listed.stdout.split()]


def test_every_relative_link_of_the_plain_files_leads_to_a_file() -> None:
    """As a reader on GitHub follows it; the site's builder checks its own."""
    dead = []
    for page in pages():
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in LINK.findall(text):
            path = target.partition("#")[0]
            if path and "://" not in path and not (page.parent / path).exists():
                dead.append(f"{page.relative_to(ROOT)}: {target}")
    assert not dead


def test_the_interface_page_names_every_public_name() -> None:
    """Once, and nothing that is not public."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\.\. auto\w+:: (\w+)", page, re.MULTILINE)) == sorted(alphac4.__all__)


def test_every_page_of_the_documentation_is_in_the_contents() -> None:
    """Or nobody would find it, and the site would not be built."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    listed = set(
        re.findall(r"^(?:\S.*<)?([\w./-]+)>?$", "".join(re.findall(r"```{toctree}(.*?)```", index, re.DOTALL)), re.M)
    )
    wanted = {
        page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in pages() if ROOT / "docs" in page.parents
    }
    assert wanted - {"index"} <= listed
