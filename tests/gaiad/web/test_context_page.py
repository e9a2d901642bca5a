"""Context Memory in a real browser: advice with its effect, struck with keys alone; thumbs below an answer."""

import pytest
from playwright.async_api import expect

from tests.makers.context import output_body, review_body, state_body

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def learned(served):
    """Two iterations in which an agent got better after advice, and a checkpoint."""
    post = served.client.post
    post("/context/state", state_body())
    for number in range(12):
        post("/context/outputs", output_body(f"b{number}", primary={"n": number}, confidence=0.2))
    review = review_body(1)
    review["critique"]["agent_feedback"] = {"generation": ["Name <b>one</b> mechanism"], "lite/plan": ["Be brief"]}
    post("/context/reviews", review)
    for number in range(12):
        post("/context/outputs", output_body(f"a{number}", primary={"n": number}, confidence=0.9))
    post("/context/checkpoints", {})
    return served


async def test_advice_is_shown_with_its_effect_and_struck_with_keys_alone(opened, learned):
    async with opened() as window:
        page = window.page
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("7")
        await expect(page.locator("h1")).to_have_text("Context")
        row = page.locator(".advice", has_text="Name <b>one</b> mechanism")
        await expect(row).to_contain_text("0.20 before (12) → 0.90 since (12)")
        await expect(row.locator(".effect")).to_have_attribute(
            "aria-label", r"generation, advice 1: effect +0.70, between +0.31 and +0.86"
        )
        assert await row.locator(".range-end").get_attribute("x1") == "85"
        await expect(page.locator(".chart .series.outputs")).to_have_count(2)
        await expect(page.locator("section[aria-label=Checkpoints] tbody tr").first).to_contain_text("on request")
        button = page.locator(".advice button[aria-label^='Strike lite/plan']")
        while not await button.evaluate("node => document.activeElement === node"):
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        struck = page.locator(".advice.struck")
        await expect(struck).to_contain_text("struck by a person")
        await expect(struck.locator("button")).to_have_count(0)
        found = learned.client.get("/context/feedback?tenant=local")["advice"]
        assert {one["agent_type"]: one["state"] for one in found} == {"generation": "active", "lite/plan": "struck"}


async def test_an_answer_is_rated_and_that_is_taken_back(opened, served):
    def ratings():
        return [turn["rating"] for turn in served.client.post("/turns/list", {"limit": 1})["turns"]]

    async with opened() as window:
        page = window.page
        await page.fill("#message", "Hello")
        await page.press("#message", "Enter")
        up, down = (
            page.locator(f'.foot [aria-label="{words}: this answer"]') for words in ("Good answer", "Not a good answer")
        )
        await down.click()
        await expect(down).to_have_attribute("aria-pressed", "true")
        assert ratings() == ["down"]
        await up.press("Enter")
        await expect(down).to_have_attribute("aria-pressed", "false")
        assert ratings() == ["up"]
        await page.reload()
        await expect(up).to_have_attribute("aria-pressed", "true")
        await up.press("Enter")
        await expect(up).to_have_attribute("aria-pressed", "false")
        assert ratings() == [""]
