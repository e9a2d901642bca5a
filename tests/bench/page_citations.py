"""Every citation of many answers, clicked in a browser: it has to open at the words that the answer quotes.

    python -m tests.bench.page_citations --home DIR [--questions 50] [--width 1280]

Asks the page of a running daemon about titles that its archive holds, clicks each numbered mark of each answer, first
as the answer came and then after a reload, and compares the highlighted words with a verified quote of that answer.
"""

import argparse
import asyncio
import json
import re
from typing import Any

from playwright.async_api import Page

from gaiad.client.client import Client
from tests.makers.browser import browsing, window

_WORD = re.compile(r"\w+")
_ANSWERED = ".turn:not(.running) .foot"
_MARKED = """() => [...document.querySelectorAll('#packet mark:is(.exact, .near)')].map((mark) => mark.textContent)"""
_AGAIN = """async (url) => {
  const { body } = await fetch(url, { headers: { 'X-Gaiad': 'page', Accept: 'text/event-stream' } });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!/event: done[^]*\\n\\n/.test(text)) text += (await reader.read()).value;
  return text;
}"""
_IN_VIEW = """() => {
  const box = document.querySelector('#packet mark')?.getBoundingClientRect();
  return Boolean(box) && box.top >= 0 && box.top < innerHeight && box.left >= 0 && box.left < innerWidth;
}"""


def words(text: str) -> str:
    """What is compared: the words, without Markdown, addresses of links and numbers of lists."""
    plain = re.sub(r"\]\(\S*\)|```\w*|(?m:^)[\s#>*-]*\d{1,4}[.)](?=[\s*])", " ", text)
    return " ".join(_WORD.findall(plain.lower().replace("_", " ")))


def questions(client: Client, most: int) -> list[str]:
    """About titles of the archive, spread over it."""
    packets = client.post("/packets/list", {"limit": 500})["packets"]
    titles = dict.fromkeys(packet["topic"] for packet in packets if packet["topic"])
    step = max(1, len(titles) // most)
    forms = ('What did we say about "{}"?', "{}", 'When did we talk about "{}"?')
    return [forms[number % 3].format(title) for number, title in enumerate(list(titles)[::step][:most])]


async def ask(page: Page, question: str) -> list[dict[str, Any]]:
    """Ask in a new conversation; the citations that the answer came with."""
    await page.evaluate("location.hash = '#/chat'")
    await page.wait_for_selector(".turns .welcome", state="attached")
    await page.fill("#message", question)
    async with page.expect_request("**/turns/events?*") as followed:
        await page.locator(".send").click()
    await page.wait_for_selector(_ANSWERED)
    events = await page.evaluate(_AGAIN, (await followed.value).url)
    done = events.split("event: done", 1)[1].split("data: ", 1)[1].split("\n", 1)[0]
    return list(json.loads(done)["citations"])


async def check(page: Page, citations: list[dict[str, Any]]) -> list[str]:
    """Click every numbered mark of the answer that is shown; what went wrong."""
    wrong = []
    marks = page.locator(".answer .cite[data-packet]")
    for number in range(await marks.count()):
        mark = marks.nth(number)
        packet = await mark.get_attribute("data-packet")
        await mark.click()
        await page.wait_for_selector("#packet .packet-pages")
        shown = words("\n".join(await page.evaluate(_MARKED)))
        quotes = [words(one["quote"]) for one in citations if one["packet_id"] == packet]
        if shown not in quotes:
            wrong.append(f"mark {number} of {packet}: {shown[:300]!r} is none of {[quote[:300] for quote in quotes]}")
        elif not await page.evaluate(_IN_VIEW):
            wrong.append(f"mark {number} of {packet}: marked out of sight")
        await page.keyboard.press("Escape")
    return wrong


async def measure(home: str, most: int, width: int) -> None:
    with Client(home) as client:
        origin = client.status().url
        asked = questions(client, most)
        link = client.post("/web/link", {})["url"]
    counted = {"answers": 0, "marks": 0, "wrong": 0, "wrong after a reload": 0}
    async with browsing() as browser, window(browser, origin, width=width, height=844, touch=width < 500) as opened:
        page = opened.page
        await page.goto(link)
        await page.wait_for_selector('body[data-link="open"]')
        for question in asked:
            citations = await ask(page, question)
            marks = await page.locator(".answer .cite[data-packet]").count()
            counted["answers"] += bool(marks)
            counted["marks"] += marks
            live = await check(page, citations)
            await page.reload()
            await page.wait_for_selector(_ANSWERED)
            again = await check(page, citations)
            counted["wrong"] += len(live)
            counted["wrong after a reload"] += len(again)
            for when, rows in (("live", live), ("reload", again)):
                for row in rows:
                    print(f"{when}: {question}: {row}", flush=True)
    print(json.dumps({"questions": len(asked), "width": width, **counted}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", required=True)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--width", type=int, default=1280)
    given = parser.parse_args()
    asyncio.run(measure(given.home, given.questions, given.width))
