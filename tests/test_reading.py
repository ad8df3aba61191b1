import json
from pathlib import Path

import pytest
from matplotlib import pyplot
from matplotlib.patches import Circle

import alphac4

REPORTS = Path(__file__).resolve().parents[1] / "docs" / "notebooks" / "quick-reports.jsonl"  # of a real run


@pytest.fixture(scope="module")
def lines() -> list[dict]:
    """The reports as JSON."""
    return [json.loads(line) for line in REPORTS.read_text().splitlines()]


def test_every_table_has_the_same_plain_columns_in_all_rows() -> None:
    """Numbers, words or nothing, so that no column becomes many; some forty at most."""
    for table in ("iterations", "errors", "matches", "time"):
        rows = alphac4.read_reports(REPORTS, table)
        assert {tuple(row) for row in rows} == {tuple(rows[0])}
        assert len(rows[0]) <= 42
        assert {type(value) for row in rows for value in row.values()} <= {int, float, str, bool, type(None)}


def test_the_rows_say_what_the_reports_say(lines: list[dict], tmp_path: Path) -> None:
    """Totals, errors, scores and shares, against the file's own JSON; a folder is read as its file is."""
    (tmp_path / "reports.jsonl").write_bytes(REPORTS.read_bytes())
    rows = alphac4.read_reports(tmp_path)
    assert len(rows) == len(lines) == 36
    last, line = rows[-1], lines[-1]
    assert (last["games"], last["minutes"]) == (line["games_total"], line["seconds_total"] / 60)
    assert (last["raw_error"], last["search_high"]) == (
        line["evaluation"]["raw"]["error"],
        line["evaluation"]["search"]["high"],
    )
    assert [row["promoted"] for row in rows] == [line["gate"]["accepted"] for line in lines]
    bins = line["selfplay"]["value_calibration"]
    expected = sum(n * abs(value - outcome) for value, outcome, n in bins) / sum(n for _, _, n in bins)
    assert last["calibration_error"] == pytest.approx(expected)
    errors = alphac4.read_reports(str(tmp_path), "errors")
    (hard,) = [
        row["error"] for row in errors if list(row.values())[:1] + list(row.values())[2:4] == [36, "raw", "begin-hard"]
    ]
    assert hard == line["evaluation"]["raw"]["errors"]["begin-hard"]
    matches = alphac4.read_reports(tmp_path, "matches")
    assert sum(row["kind"] == "classic" for row in matches) == sum(len(line["matches"]) for line in lines)
    gate = line["gate"]
    assert matches[-2 if lines[-1]["matches"] else -1]["score"] == (gate["wins"] + gate["draws"] / 2) / (
        gate["wins"] + gate["draws"] + gate["losses"]
    )
    shares = [row["share"] for row in alphac4.read_reports(tmp_path, "time") if row["iteration"] == 36]
    assert sum(shares) == pytest.approx(sum(line["time_shares"].values()))


def test_what_is_no_run_is_told_in_one_line(tmp_path: Path) -> None:
    """And what tables there are."""
    with pytest.raises(ValueError, match="no reports of a run here"):
        alphac4.read_reports(tmp_path)
    with pytest.raises(ValueError, match="no table 'games'; there are iterations, errors, matches, time"):
        alphac4.read_reports(REPORTS, "games")


def test_a_drawn_board_has_its_stones() -> None:
    """Two of each colour on 42 cells, counted in the picture; a policy of another board is refused."""
    axes = alphac4.draw_board("4455", [0.1] * 7, title="here")
    discs = [patch for patch in axes.patches if isinstance(patch, Circle) and patch.radius > 0.3]
    assert len(discs) == 42
    assert sorted(
        sum(disc.get_facecolor() == colour for disc in discs) for colour in {d.get_facecolor() for d in discs}
    ) == [
        2,
        2,
        38,
    ]
    assert axes.get_title() == "here"
    pyplot.close(axes.figure)
    with pytest.raises(ValueError, match="7 shares, one for each column, not 5"):
        alphac4.draw_board("4455", [0.2] * 5)
    with pytest.raises(ValueError, match="column 4"):
        alphac4.draw_board("4444444")
