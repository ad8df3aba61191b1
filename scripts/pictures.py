"""Draw the pictures of docs/ anew, the page's and a review's in Chromium; needs ./scripts/setup.sh web dev.

Layers and loop are written by hand, as text; the notebooks draw their own.
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
DRAWN = (  # by commands
    "search 44 --player best@600 --svg docs/gallery/tree.svg",
    "evaluate best --simulations 0,100,600 --picture docs/gallery/mistakes.png",  # four minutes
)
REVIEWED = "4444452226671"  # four of its thirteen moves are mistakes
PLAYED = "43373322244754565"  # Red's second move gives the win away, and Yellow gives it back
WAIT = 120_000  # milliseconds
MOVE, END = 1100, 4000  # milliseconds that the moving picture shows a move and the end
SEARCHED = 4000  # milliseconds, in which an analysis ends even on a busy machine
COLOURS = 256


def main() -> None:
    """Draw every picture."""
    for command in DRAWN:
        subprocess.run([*COMMAND, *command.split()], check=True, cwd=DOCS.parent)
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])

        def open_page(place: str, width: int, height: int, scheme: Literal["light", "dark"] = "light") -> Any:
            size = ViewportSize(width=width, height=height)
            page = browser.new_context(viewport=size, color_scheme=scheme, reduced_motion="reduce").new_page()
            page.set_default_timeout(WAIT)
            page.goto(place)
            return page

        page = open_page(address, 1040, 700)
        for game in (PLAYED, REVIEWED):  # so that a busy machine, too, knows who wins as soon as it is asked
            for ply in range(len(game), 3, -1):
                page.request.post(f"{address}api/exact", data={"moves": game[:ply]}, timeout=WAIT)

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
    """The address of the page, while it is served."""
    command = [*COMMAND, "play", "web", "--no-open", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[2]
        finally:
            server.kill()


def await_analysis(page: Any) -> None:
    """Wait until a search of the position shown has begun, and then as long as it and the solver usually take."""
    page.wait_for_selector("#outlook:not(:text('Thinking')):not(:empty)")
    page.wait_for_timeout(SEARCHED)
    assert page.is_hidden("#problem")


def picture_of(page: Any) -> Image.Image:
    """The page as it is now, at three quarters of its size."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS)


def save(page: Any, path: Path) -> None:
    """Write the page as it is now, with all of its colours: a palette would leave out those of narrow lines."""
    Image.open(io.BytesIO(page.screenshot())).convert("RGB").save(path, optimize=True)


def save_moving(frames: list[Image.Image], path: Path) -> None:
    """Write a GIF whose frames have their colours in common, so that each stores little but what it changes."""
    width, height = frames[0].size
    together = Image.new("RGB", (width, height * len(frames)))
    for number, frame in enumerate(frames):
        together.paste(frame, (0, height * number))
    palette = together.quantize(COLOURS, kmeans=1)  # or else pale yellow becomes the more frequent pale red
    reduced = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [MOVE] * (len(frames) - 1) + [END]
    reduced[0].save(path, save_all=True, append_images=reduced[1:], duration=durations, loop=0, optimize=True)


if __name__ == "__main__":
    main()
