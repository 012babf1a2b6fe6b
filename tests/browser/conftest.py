"""A browser for all tests here, and pages as files."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium that opens files."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,900"):
        options.add_argument(argument)
    options.add_argument("--disable-dev-shm-usage")  # in a container it may be too small, and tabs crash
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def serve(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that writes a page to disk and returns its address."""

    def write(page: str) -> str:
        path = tmp_path / "report.html"
        path.write_text(page, encoding="utf-8")
        return path.as_uri()

    return write
