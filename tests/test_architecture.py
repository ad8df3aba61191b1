import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def contracted_layers() -> list[str]:
    """The layers of the import contract, from the ground up."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [layer.removeprefix("alphac4.") for layer in reversed(layers)]


def test_the_drawn_layers_are_those_of_the_import_contract() -> None:
    """In the same order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## Layers")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == contracted_layers()
    drawn = (ROOT / "docs" / "layers.svg").read_text(encoding="utf-8")
    names = re.findall(r"<text x[^>]*>(\w+)</text>", drawn)  # from the top down, and from the left
    assert list(reversed(names)) == contracted_layers()


def test_every_package_has_a_layer() -> None:
    """One that the contract does not list could import whatever it likes."""
    packages = {path.parent.name for path in (ROOT / "alphac4").glob("*/__init__.py")}
    assert packages <= set(contracted_layers())
