"""A real browser for tests of the page; without chromium they are skipped and say why, and under GAIAD_CI they fail."""

import os
import shutil
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import async_playwright, expect

_PATIENCE_MS = 60_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def chromium():
    """The path of the machine's own chromium."""
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    words = "no chromium on this machine: the page is not looked at (apt-get install chromium)"
    if os.environ.get("GAIAD_CI"):
        pytest.fail(words)
    pytest.skip(words)


class Window:
    """A page of the browser that notes what it must not do: errors in the console, requests to another host."""

    def __init__(self, page, origin):
        self.page, self.origin = page, origin
        self.errors, self.foreign = [], []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._asked)

    def _said(self, message):
        if message.type in ("error", "warning"):
            self.errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _asked(self, request):
        if not request.url.startswith((self.origin, "data:", "blob:")):
            self.foreign.append(request.url)

    def forgive(self, words):
        """What the browser itself says of requests that had to fail."""
        self.errors = [error for error in self.errors if words not in error]

    def check(self):
        assert not self.foreign, self.foreign
        assert not self.errors, self.errors


@asynccontextmanager
async def browsing():
    """The browser itself, for several windows one after the other."""
    path = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=_OPTIONS)
        expect.set_options(timeout=_PATIENCE_MS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def window(browser, origin, *, width=1280, height=860, scheme="light", touch=False, motion="no-preference"):
    """A window without any cookie or memory of others; what it noted is checked at the end."""
    context = await browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=touch, is_mobile=touch,
        reduced_motion=motion,
    )  # fmt: skip
    try:
        context.set_default_timeout(_PATIENCE_MS)
        made = Window(await context.new_page(), origin)
        yield made
        made.check()
    finally:
        await context.close()
