"""Take a screenshot of the page of the sample run, for the documentation: `python diagrams/screenshot.py`.

It needs Chromium. The fonts depend on the computer, so no test compares the file.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from generate import HERE, a_run
from playwright.sync_api import sync_playwright

SIZE = (1440, 900)
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# An interesting step: the second reply of the model.
STEP = 5

if __name__ == "__main__":
    result = a_run()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = result.draw(Path(folder) / "run.html")
        found = next(filter(None, map(shutil.which, NAMES)), None)
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_function("performance.getEntriesByName('usable').length")
        page.keyboard.press("Home")
        for _ in range(STEP):
            page.keyboard.press("ArrowRight")
        page.screenshot(path=HERE.parent / "docs" / "how-to" / "page.png")
        browser.close()
