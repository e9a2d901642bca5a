"""A research run on the page while it is under way: the answer so far, and a run that was begun again."""

import json

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUOTE = "Bearings of the sand mixer fail about twice a year."
CITATION = {
    "packet_id": "tp-20250928-134500",
    "quote": QUOTE,
    "page_id": "p",
    "start": 0,
    "end": 51,
    "sha256": "0" * 64,
}
SEARCHING = ("searching", {"iteration": 1, "query": "bearings", "refinements": []})
FOUND = ("found", {"iteration": 1, "new_pages": 3, "packets": ["tp-20250928-134500"]})
REFLECTED = ("reflected", {"iteration": 1, "sufficient": False, "confidence": 0.5, "missing": ["plumber"]})
PARTIAL = (
    "partial",
    {
        "iteration": 1,
        "answer": f"{QUOTE} [Packet: tp-20250928-134500]",
        "confidence": 0.5,
        "packets": ["tp-20250928-134500"],
        "missing": ["plumber"],
        "citations": [CITATION],
    },
)


def streamed(*events):
    lines = [f"id: {n}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for n, (name, data) in enumerate(events, start=1)]
    return {"status": 200, "content_type": "text/event-stream", "body": "".join(lines)}


async def test_the_answer_so_far_stands_until_the_answer_is_there_also_over_a_restart(opened, served):
    result = served.client.post("/research", {"query": "How often do the bearings of the sand mixer fail?"})
    answers = [streamed(("started", {"research_id": "res_1"}), SEARCHING, FOUND, REFLECTED, PARTIAL)]
    async with opened("#/research") as window:
        page = window.page

        async def events(route):
            if answers:
                await route.fulfill(**answers.pop())
            else:  # the daemon is away
                await route.abort()

        async def started(route):
            await route.fulfill(status=200, json={"research_id": "res_1"})

        await page.route("**/research/res_1/events*", events)
        await page.route("**/research/start", started)
        await page.fill("#question", "How often do the bearings of the sand mixer fail, and who paid the plumber?")
        await page.press("#question", "Enter")
        await expect(page.locator(".result-head .verdict")).to_have_text("so far")
        await expect(page.locator(".result .answer")).to_contain_text(QUOTE)
        await expect(page.locator(".result .note")).to_have_text("Still missing: plumber")
        await expect(page.locator(".run-text")).to_have_count(3)
        await expect(page.locator(".result .cite")).to_have_count(1)
        started_again = (("started", {"research_id": "res_1"}), ("resumed", {"research_id": "res_1"}))
        answers.append(streamed(*started_again, SEARCHING, FOUND, ("result", result)))
        await expect(page.locator(".result-head .verdict")).to_have_text("answered", timeout=60_000)
        steps = await page.locator(".run-text").all_inner_texts()
        assert steps == [
            "The daemon was restarted; the run goes on where it was",
            "Searching: bearings",
            "3 new pages, 1 relevant packet",
        ]
        await expect(page.locator(".result .note", has_text="Still missing")).to_have_count(0)
        window.forgive("Failed to load resource")  # however often it asked while the daemon was away
