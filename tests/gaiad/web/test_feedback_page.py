"""Below an answer in a real browser: whether a source was useful, and an earlier packet that bears on what was said."""

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="module")
PACKET = "tp-20250928-134500"
ASKED = "How often do the bearings fail?"


def said(served):
    rows = served.client.post("/feedback/list", {})["feedback"]
    return [(row["packet_id"], row["verdict"], row["query"]) for row in rows]


async def test_a_source_is_said_to_be_useful_or_not_and_that_is_taken_back(opened, served):
    async with opened() as window:
        page = window.page
        await page.fill("#message", ASKED)
        await page.press("#message", "Enter")
        useful, useless = (
            page.locator(f'.source-item [aria-label="{words}: packet {PACKET}"]') for words in ("Useful", "Not useful")
        )
        await useful.click()
        await expect(useful).to_have_attribute("aria-pressed", "true")
        assert said(served) == [(PACKET, "useful", ASKED)]
        await useless.click()
        await expect(useless).to_have_attribute("aria-pressed", "true")
        await expect(useful).to_have_attribute("aria-pressed", "false")
        assert said(served) == [(PACKET, "not-useful", ASKED)]
        await page.reload()
        await expect(useless).to_have_attribute("aria-pressed", "true")
        await expect(useful).to_have_attribute("aria-pressed", "false")
        await useless.press("Enter")
        await expect(useless).to_have_attribute("aria-pressed", "false")
        assert said(served) == []


async def test_an_earlier_packet_stands_below_the_answer_and_opens(opened, served):
    async with opened() as window:
        page = window.page
        await page.evaluate(
            """async (packet) => {
                const { newTurn, apply, rememberedTurn } = await import('/web/turn_model.js');
                const { TurnView } = await import('/web/turn_view.js');
                const words = `In [Packet: ${packet}] we also covered <b>it</b>`;
                const also = { packet_id: packet, title: 'Bearings', words, score: 0.7 };
                const told = newTurn('What hums?', { turnId: 't1', answer: 'A pump.', running: false });
                apply(told, 'also', also);
                const messages = [{ role: 'user', content: 'What hums?' }];
                const stored = rememberedTurn({ turn_id: 't2', session_id: 's', messages, metadata: { also } });
                for (const turn of [told, stored]) document.querySelector('.turns').append(new TurnView(turn, {}).node);
            }""",
            PACKET,
        )
        shown = "In 1 we also covered <b>it</b>"
        assert await page.locator(".also-words").all_inner_texts() == [shown, shown]
        assert await page.locator(".answer .also-words").count() == 0
        await page.locator(".also .verdict[aria-label^='Useful']").first.click()
        await expect(page.locator(".also .verdict").first).to_have_attribute("aria-pressed", "true")
        assert said(served) == [(PACKET, "useful", "What hums?")]
        await page.locator(".also .cite").first.click()
        await expect(page.locator("#packet")).to_be_visible()
        served.client.post("/feedback/reset", {})
