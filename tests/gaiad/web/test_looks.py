"""That everybody can use the page: by keys alone, on a phone, in both schemes, with enough contrast, without motion."""

import asyncio
import re
from pathlib import Path

import pytest
from playwright.async_api import expect

import gaiad

pytestmark = pytest.mark.asyncio(loop_scope="module")
WEB = Path(gaiad.__file__).parent / "web"
PLACES = ("chat", "council", "archive?q=bearings", "research", "approvals", "status", "context")
LEAST_CONTRAST = 4.5


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_no_place_is_wider_than_a_phone(opened, scheme):
    async with opened(width=360, height=740, touch=True, scheme=scheme) as window:
        page = window.page
        for place in PLACES:
            await page.evaluate("place => { location.hash = place }", f"#/{place}")
            await page.wait_for_timeout(300)
            wide = await page.evaluate(
                "[...document.querySelectorAll('#view *')].filter((node) => node.getBoundingClientRect().right > 361"
                " && !node.closest('.wide-table, .code, .unseen, .sprite')).map((node) => node.className)"
            )
            assert wide == [], place
            assert await page.evaluate("document.documentElement.scrollWidth") <= 360
        await page.evaluate("location.hash = '#/chat'")
        await page.select_option("select[aria-label=Depth]", "full")
        await page.fill("#message", "Hello")
        await page.click(".send")
        await page.wait_for_selector(".turn:not(.running) .foot")
        await page.click(".work > summary")
        await expect(page.locator(".step-what").nth(4)).to_be_visible()
        heights = await page.evaluate("[...document.querySelectorAll('.step-what')].map((node) => node.offsetHeight)")
        assert len(heights) > 4
        assert max(heights) < 60, "words of a step stand beside each other"
        await page.click(".more button")
        await expect(page.locator(".new-chat")).to_be_visible()
        await page.evaluate("location.hash = '#/status'")
        await expect(page.locator(".chart-table")).to_have_count(2)
        cut = "[...document.querySelectorAll('.chart-table')].map((node) => node.scrollWidth - node.clientWidth)"
        assert await page.evaluate(cut) == [0, 0], "every number is seen"


async def test_everything_is_done_with_keys_alone(opened):
    async with opened() as window:
        page = window.page
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("3")
        await expect(page.locator("#query")).to_be_focused()
        await page.keyboard.type("foundry bearings")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hit").first).to_be_visible()
        while not await page.evaluate("document.activeElement.closest('.hit h2') !== null"):
            await page.keyboard.press("Tab")
        outline = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", "the focus can be seen"
        await page.keyboard.press("Enter")
        await expect(page.locator("#packet h2")).to_be_focused()
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.activeElement.closest('.hit h2') !== null")
        await page.keyboard.press("?")
        await expect(page.locator("#help")).to_contain_text("New conversation")
        await page.keyboard.press("Escape")
        await expect(page.locator("#help")).to_be_hidden()
        await page.keyboard.press("n")
        await expect(page.locator("#message")).to_be_focused()
        await page.keyboard.type("Hello")
        await page.keyboard.press("Enter")
        await expect(page.locator(".turn .answer")).to_have_text("I heard you.")
        await expect(page.locator("#said")).to_have_text("Answer: I heard you.")


async def test_the_first_key_reaches_the_content(opened):
    async with opened("#/status") as window:
        await window.page.reload()
        await window.page.wait_for_selector(".tile")
        await window.page.keyboard.press("Tab")
        await expect(window.page.locator(".skip")).to_be_focused()
        await expect(window.page.locator(".skip")).to_be_in_viewport()
        await window.page.keyboard.press("Enter")
        assert await window.page.evaluate("document.activeElement.id") == "view"
        await expect(window.page.locator("h1")).to_have_text("Status")


async def test_dark_and_light_follow_the_system_until_one_is_chosen(opened):
    async with opened(scheme="dark", motion="reduce") as window:
        page = window.page
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = await page.evaluate(ground)
        await page.click("#theme-words")
        light = await page.evaluate(ground)
        assert dark != light
        await page.reload()
        await page.wait_for_selector('body[data-link="open"]')
        assert await page.evaluate(ground) == light
        assert await page.evaluate("getComputedStyle(document.querySelector('.send')).animationName") == "none"


def colours():
    """Name -> (light, dark), as red, green and blue."""
    found = re.findall(r"--([a-z0-9-]+): light-dark\((#\w{6}), (#\w{6})\)", (WEB / "base.css").read_text())
    return {name: tuple(bytes.fromhex(colour[1:]) for colour in both) for name, *both in found}


def luminance(colour):
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


async def test_every_colour_of_text_stands_out_from_every_ground():
    known = colours()
    pairs = [
        *((ink, ground) for ink in ("ink", "quiet", "accent", "bad", "warn", "prime", "lite", "codemind")
          for ground in ("ground", "surface", "raised", "sunk")),
        ("accent", "accent-soft"), ("bad", "bad-soft"), ("accent-ink", "accent"), ("ink", "mark"), ("surface", "bad"),
        ("quiet", "accent-soft"), ("ink", "accent-soft"),
    ]  # fmt: skip
    faint = []
    for ink, ground in pairs:
        for scheme in (0, 1):
            high, low = sorted((luminance(known[ink][scheme]), luminance(known[ground][scheme])), reverse=True)
            ratio = (high + 0.05) / (low + 0.05)
            if ratio < LEAST_CONTRAST:
                faint.append((ink, ground, "dark" if scheme else "light", round(ratio, 2)))
    assert faint == []


async def test_no_file_of_the_page_makes_markup_of_text_or_styles_in_place():
    forbidden = re.compile(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setAttribute\(\"style"
    )
    scripts = sorted(WEB.glob("*.js"))
    assert scripts
    for script in scripts:
        text = script.read_text()
        assert not forbidden.search(text), script.name
        assert len(text.splitlines()) < 300, script.name
    page = (WEB / "index.html").read_text()
    assert not re.search(r"\sstyle=|\son[a-z]+=|<script>|https?://(?!www\.w3\.org)", page)


async def test_a_window_that_nobody_looks_at_holds_no_connection(opened):
    hide = "(hidden) => { Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });"
    hide += " document.dispatchEvent(new Event('visibilitychange')) }"
    async with opened() as window:
        page, asked, let_go = window.page, [], []
        page.on("request", lambda request: asked.append(request) if "/events?" in request.url else None)
        page.on("requestfailed", lambda request: let_go.append(request) if "/events?" in request.url else None)
        await page.clock.install()
        await page.reload()
        await page.wait_for_selector('body[data-link="open"]')
        del asked[:-1], let_go[:]
        await page.evaluate(hide, True)
        async with page.expect_event("requestfailed"):
            await page.clock.fast_forward(31_000)
        assert [request.url for request in let_go] == [asked[0].url]
        async with page.expect_request("**/events?*") as again:
            await page.evaluate(hide, False)
        assert (await (await again.value).all_headers())["last-event-id"].isdigit()
        await expect(page.locator("#banner")).to_be_hidden()


async def test_a_login_that_ends_is_said_and_what_was_typed_stays(opened, served):
    async with opened() as window:
        page = window.page
        await page.fill("#message", "half a thought")
        await asyncio.to_thread(served.client.post, "/web/logout-all", {})
        await expect(page.locator("#banner")).to_contain_text("Your sign-in has ended. Run gaiad web for a new link")
        await page.goto(served.link())
        await page.wait_for_selector('body[data-link="open"]')
        assert await page.input_value("#message") == "half a thought"
        await page.click("text=Log out")
        await expect(page.locator("main")).to_contain_text("You are not logged in")
        window.forgive("Failed to load resource")
