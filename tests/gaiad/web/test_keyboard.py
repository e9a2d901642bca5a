"""Every view by keys alone: whatever can be clicked is reached with Tab, is seen to have the focus, and works."""

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NOT_REACHED = """() => {
  const shown = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getClientRects().length > 0;
  const active = 'a[href], button:not(:disabled), input:not(:disabled), select, textarea, summary, [role=button]';
  const inside = document.querySelector('dialog[open]') ?? document.body;
  const all = [...inside.querySelectorAll('*')].filter(shown);
  const named = (node) => node.outerHTML.slice(0, 120);
  const roving = (node) => node.tabIndex < 0 && [...node.parentNode.children].some((other) => other.tabIndex >= 0);
  const controls = all.filter((node) => node.matches(active) && !node.matches('input[type=file]'));
  const pointed = all.filter((node) => getComputedStyle(node).cursor === 'pointer' &&
      !node.closest(active + ', label, [role=option], dialog'));
  return [
    ...controls.filter((node) => !node.dataset.reached && !roving(node)).map((node) => 'not reached: ' + named(node)),
    ...pointed.map((node) => 'only by pointer: ' + named(node)),
  ];
}"""
_MARK = """() => {
  const node = document.activeElement;
  if (node === window.before || node === document.body) return ''; // a date has several fields
  window.before = node;
  if (node.dataset.reached) return 'again';
  node.dataset.reached = 'yes';
  const signs = [node, node.parentElement].map((one) => getComputedStyle(one));
  const seen = signs.some((one) => one.outlineStyle !== 'none' || one.boxShadow !== 'none');
  const box = node.getBoundingClientRect();
  const inView = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return seen && inView ? '' : (seen ? 'out of view: ' : 'no sign of focus: ') + node.outerHTML.slice(0, 120);
}"""


async def walk(page):
    """Tab through all of it; what is amiss."""
    amiss = []
    await page.evaluate(
        "document.querySelectorAll('[data-reached]').forEach((node) => delete node.dataset.reached);"
        "document.activeElement.blur()"
    )
    for _ in range(400):
        await page.keyboard.press("Tab")
        said = await page.evaluate(_MARK)
        if said == "again":
            break
        amiss += [said] if said else []
    return amiss + await page.evaluate(_NOT_REACHED)


@pytest.fixture(scope="module")
def used(served, tmp_path_factory):
    """A home in which every view has something in it."""
    served.client.post("/chat", {"message": "How often do the bearings fail?", "session_id": "asked"})
    served.client.post("/chat", {"message": "Please delete the old log", "session_id": "log", "depth": "full"})
    served.client.post("/research", {"query": "How often do the bearings of the sand mixer fail?"})
    broken = tmp_path_factory.mktemp("broken") / "torn.xml"
    broken.write_text("<transmissionPacket><oops></transmissionPacket>")
    served.client.post("/ingest", {"paths": [str(broken)], "wait": True})
    return served


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize(
    ("place", "ready"),
    [
        ("chat/asked", ".turn .cite"),
        ("council", "#view h1"),
        ("archive", ".browse-list li"),
        ("archive?q=bearings", ".hit"),
        ("packet/tp-20250928-134500", "#packet h2"),
        ("research", "#view h1"),
        ("approvals", "#view h1"),
        ("status", ".tile"),
        ("context", "#view h1"),
    ],
)
async def test_whatever_can_be_clicked_is_reached_with_tab(opened, place, ready, width):
    async with opened(f"#/{place}", width=width, height=844) as window:
        await window.page.wait_for_selector(ready)
        await window.page.wait_for_timeout(300)
        assert await walk(window.page) == []


async def test_import_citation_deletion_and_quarantine_by_keys_alone(opened, used, tmp_path):
    path = tmp_path / "boats.md"
    path.write_text("**User:** Which knot holds a boat?\n\n**Assistant:** The bowline holds a boat.\n")
    async with opened("#/chat/asked") as window:
        page = window.page
        page.on(
            "filechooser", lambda chooser: chooser.set_files(path)
        )  # from now on: asked for late, one may be missed
        await page.wait_for_selector(".turn .cite")
        await focus(page, "document.activeElement.matches('.cite, .cite *')")
        await page.keyboard.press("Enter")
        await expect(page.locator("#packet mark").first).to_be_visible()
        await page.keyboard.press("Escape")
        assert await page.evaluate("document.activeElement.closest('.cite') !== null"), "the focus is where it was"
        await page.keyboard.press("3")
        await page.wait_for_selector(".browse-list li")
        await focus(page, "document.activeElement.textContent === 'Import…'")
        await page.keyboard.press("Enter")
        boats = page.locator(".browse-list a", has_text="boats")
        await expect(boats).to_be_visible()
        await focus(
            page,
            "document.activeElement.matches('.browse-list a') && document.activeElement.textContent.includes('boats')",
        )
        await page.keyboard.press("Enter")
        await expect(page.locator("#packet h2")).to_be_focused()
        await focus(page, "document.activeElement.textContent === 'Delete…'")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Keep")).to_be_focused()
        await page.keyboard.press("Shift+Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Undo")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("button", name="Delete…")).to_be_focused()
        await page.keyboard.press("Escape")
        await focus(page, "document.activeElement.textContent === '1 file could not be read'")
        await page.keyboard.press("Enter")
        await focus(page, "document.activeElement.textContent === 'Drop'")
        await page.keyboard.press("Enter")
        await expect(page.locator("#view")).to_be_focused()
    assert used.client.get("/quarantine")["quarantined"] == []


async def focus(page, condition):
    for _ in range(200):
        if await page.evaluate(condition):
            return
        await page.keyboard.press("Tab")
    raise AssertionError(f"never: {condition}")
