"""Regenerate the pictures of docs/; needs ./scripts/setup.sh web dev.

Pictures of the page and of a review are taken in Chromium. The diagrams of layers and loop are text files; notebooks
draw their own pictures.
"""

import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from PIL import Image
from playwright.sync_api import ViewportSize, sync_playwright

DOCS = Path(__file__).resolve().parents[1] / "docs"
COMMAND = (sys.executable, "-m", "alphac4")
DRAWING_COMMANDS = (
    "search 44 --player best@600 --svg docs/gallery/tree.svg --overwrite",
    "evaluate best --simulations 0,100,600 --picture docs/gallery/mistakes.png --overwrite",  # four minutes
)
REVIEWED = "4444452226671"  # four of its thirteen moves are mistakes
PLAYED = "43373322244754565"  # Red's second move gives the win away, and Yellow gives it back
PAGE_TIMEOUT_MS = 120_000
MOVE_MS, END_MS = 1100, 4000  # durations of a move and of the final board in the animation
ANALYSIS_MS = 4000  # time in which an analysis ends even on a busy machine
COLOURS = 256


def main() -> None:
    """Draw every picture."""
    for command in DRAWING_COMMANDS:
        subprocess.run([*COMMAND, *command.split()], check=True, cwd=DOCS.parent)
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def open_page(place: str, width: int, height: int, scheme: Literal["light", "dark"] = "light") -> Any:
            size = ViewportSize(width=width, height=height)
            page = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            page.set_default_timeout(PAGE_TIMEOUT_MS)
            page.goto(place)
            return page

        page = open_page(address, 1040, 700)
        for game in (PLAYED, REVIEWED):  # solve all positions first, so that results appear without delay
            for ply in range(len(game), 3, -1):
                page.request.post(f"{address}api/exact", data={"moves": game[:ply]}, timeout=PAGE_TIMEOUT_MS)

        page = open_page(f"{address}#{REVIEWED}", 1280, 900)
        page.select_option("#second", "")
        page.click("#review-ask")
        page.wait_for_selector("#sides b")
        page.click("#review-show")
        page.check("#analyse")
        await_analysis(page)
        page.evaluate("scrollTo(0, 0)")
        save(page, DOCS / "web.png")

        page = open_page(address, 1040, 700)
        page.select_option("#second", "")
        page.check("#analyse")
        await_analysis(page)
        frames = [picture_of(page)]
        for move in PLAYED:
            page.keyboard.press(move)
            await_analysis(page)
            frames.append(picture_of(page))
        save_moving(frames, DOCS / "game.gif")

        page = open_page(f"{address}#puzzles", 390, 700, "dark")
        page.click("#puzzle-hint")
        page.evaluate("scrollTo(0, 0)")
        save(page, DOCS / "gallery" / "puzzle.png")

        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "review.html"
            subprocess.run([*COMMAND, "review", REVIEWED, "--html", str(file)], check=True)
            page = open_page(file.as_uri(), 1100, 760)
            save(page, DOCS / "gallery" / "review.png")
        browser.close()


@contextmanager
def served() -> Iterator[str]:
    """Serve the page and yield its address."""
    command = [*COMMAND, "play", "web", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[2]
        finally:
            server.kill()


def await_analysis(page: Any) -> None:
    """Wait until the search of the current position has started, then `ANALYSIS_MS` for it and the solver."""
    page.wait_for_selector("#outlook:not(:text('Thinking')):not(:empty)")
    page.wait_for_timeout(ANALYSIS_MS)
    assert page.is_hidden("#problem")


def picture_of(page: Any) -> Image.Image:
    """Return a screenshot of the page at three quarters of its size."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS)


def save(page: Any, path: Path) -> None:
    """Save a screenshot with all its colours, because a palette would lose those of narrow lines."""
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(path, optimize=True)


def save_moving(frames: list[Image.Image], path: Path) -> None:
    """Save a GIF with one palette for all frames, so that a frame stores little more than its changes."""
    width, height = frames[0].size
    together = Image.new("RGB", (width, height * len(frames)))
    for number, frame in enumerate(frames):
        together.paste(frame, (0, height * number))
    palette = together.quantize(COLOURS, kmeans=1)  # without k-means, pale yellow becomes pale red
    reduced = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [MOVE_MS] * (len(frames) - 1) + [END_MS]
    reduced[0].save(path, save_all=True, append_images=reduced[1:], duration=durations, loop=0, optimize=True)


if __name__ == "__main__":
    main()
