"""Draw the pictures of the README and the gallery anew: ``python docs/pictures/draw.py``.

Needs a finished ``make study``, Chromium and Playwright (``make test`` installs the latter).
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer

import memberbound
from memberbound.report.pictures import save_frontier, save_roc, save_success

HERE = Path(__file__).resolve().parent
REPORT = HERE.parents[1] / "reports" / "study" / "report.html"


def drawn() -> None:
    """Draw what needs no browser."""
    patients = load_breast_cancer(as_frame=True).frame
    sizes = patients[["mean radius", "mean texture"]]
    found = {
        "roc": lambda path: save_roc(memberbound.explain(epsilon=1.0, delta=1e-5), path),
        "population": lambda path: save_success(memberbound.population(sizes, epsilon=8), path),
        "frontier": lambda path: save_frontier(
            memberbound.harden(patients, security=0.9, target="target", learners=False), path
        ),
    }
    for name, save in found.items():
        path = HERE / f"{name}.png"
        path.unlink(missing_ok=True)
        save(path)


def pictured(browser: Any, address: str, name: str, *, height: int, ready: str) -> None:
    """Take a picture of a page's upper part."""
    page = browser.new_page(viewport={"width": 1280, "height": height})
    page.goto(address)
    page.wait_for_selector(ready)
    page.wait_for_timeout(1500)
    page.screenshot(path=str(HERE / f"{name}.png"))
    page.close()


def main() -> None:
    """Draw everything."""
    if not REPORT.is_file():
        sys.exit("run make study first")
    drawn()
    command = [sys.executable, "-m", "memberbound", "serve", "--no-open", "--port", "8765"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        time.sleep(12)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"),
                args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
            )
            drawn_figure = ".js-plotly-plot .main-svg"
            pictured(browser, REPORT.as_uri(), "report", height=1500, ready=".plot svg")
            address = "http://127.0.0.1:8765/"
            pictured(browser, address, "calculator", height=1100, ready=drawn_figure)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    for path in HERE.glob("*.png"):
        # 256 colours are enough for flat pages and lines, and take a third of the room.
        Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main()
