"""What the page shows of words that were left out on their way to it, and a research run that outlives a reload."""

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="module")
ADDRESS = "ada.lovelace@example.org"
LANTERN = f"Write to {ADDRESS} before you come. The keeper of the lantern in the old mill is {ADDRESS} and nobody else."
SHOWN = "The keeper of the lantern in the old mill is [e-mail] and nobody else."
QUESTION = "Who is the keeper of the lantern in the old mill?"


@pytest.fixture
def packet(served, make_packet):
    document = {"name": "mill.xml", "content": make_packet("TP-MILL", LANTERN, "The lantern of the mill").decode()}
    served.client.post("/ingest", {"documents": [document], "wait": True})


async def test_a_run_goes_on_after_a_reload_and_its_scrubbed_quote_is_marked_where_it_stands(opened, served, packet):
    begun = served.client.post("/research/start", {"query": QUESTION})["research_id"]
    async with opened() as window:
        page = window.page
        await page.evaluate("id => localStorage.setItem('gaiad.research.begun.local', JSON.stringify(id))", begun)
        await page.reload()
        await page.evaluate("location.hash = '#/research'")
        await expect(page.locator(".result-head .verdict")).to_have_text("answered")
        await expect(page.locator(".run-text").first).to_contain_text("Searching: ")
        assert await page.evaluate("localStorage.getItem('gaiad.research.begun.local')") is None
        await expect(page.locator(".quote", has_text=SHOWN)).to_contain_text("scrubbed on its way here")
        await page.locator(".quote", has_text=SHOWN).click()
        await expect(page.locator("#packet mark.exact")).to_contain_text(SHOWN)
        await expect(page.locator("#packet .note")).to_contain_text("Left out on this channel: ")
        await expect(page.locator("#packet .note")).to_contain_text("e-mail address")
        assert ADDRESS not in await page.content()
        await page.reload()
        await expect(page.locator(".result-head .verdict")).to_have_text("answered")


async def test_a_run_that_was_lost_says_so_and_the_next_one_begins_anew(opened, packet):
    async with opened() as window:
        page = window.page
        await page.evaluate("localStorage.setItem('gaiad.research.begun.local', JSON.stringify('res_none'))")
        await page.reload()
        await page.evaluate("location.hash = '#/research'")
        await expect(page.locator(".result .problem")).to_contain_text("no run is called 'res_none'")
        window.forgive("Failed to load resource")
        await page.fill("#question", QUESTION)
        await page.press("#question", "Enter")
        await expect(page.locator(".result-head .verdict")).to_have_text("answered")


async def test_a_search_says_what_was_left_out_of_its_hits(opened, packet):
    async with opened("#/archive?q=lantern+mill") as window:
        page = window.page
        await expect(page.locator(".outcome")).to_contain_text("Left out on this channel: ")
        await expect(page.locator(".hit .stored").first).to_contain_text("[e-mail]")
        assert ADDRESS not in await page.content()
