"""Citations over an imported conversation with lists, code and a table: each opens at the words that were quoted."""

import json

import pytest

from tests.bench.page_citations import ask, check
from tests.gaiad.test_forgotten_everywhere import imported
from tests.gaiad.web.conftest import PageDaemon
from tests.makers.browser import chromium, window
from tests.makers.exports import chatgpt, chatgpt_node
from tests.makers.scripted_home import WITHOUT_EMBEDDER

pytestmark = pytest.mark.asyncio(loop_scope="module")
STEPS = """## 1. Prepare the **pump house**

To drain the pump house before winter:

1. **Close the inlet**: turn the red valve to the right.
2. **Open the drain**: it sits below the `filter` box.

```bash
valvectl close inlet
```

## 2. Check the gauges

| gauge | winter limit |
|---|---|
| pump house | 2 bar |

The pump house gauge must read zero (see https://example.org/pump) before the frost."""
QUESTIONS = ["How do we drain the pump house?", "What must the pump house gauge read before the frost?", "pump house"]


@pytest.fixture(scope="module")
def quoting(tmp_path_factory):
    """A daemon without a chat model that holds one imported conversation."""
    chromium()
    folder = tmp_path_factory.mktemp("citations")
    asked = chatgpt_node("q", "root", "user", "How do we drain the pump house?")
    export = chatgpt(asked, chatgpt_node("a", "q", "assistant", STEPS, 5.0), title="Draining the pump house")
    (folder / "conversations.json").write_text(json.dumps([export]))
    daemon = PageDaemon(folder / "h", WITHOUT_EMBEDDER)
    assert [each.outcome for each in imported(daemon, folder / "conversations.json")] == ["accepted"]
    yield daemon
    daemon.stop()


@pytest.mark.parametrize("width", [1280, 390])
async def test_every_citation_opens_at_the_quoted_words_also_after_a_reload(quoting, browser, width):
    marks = 0
    async with window(browser, quoting.origin, width=width, touch=width < 500) as opened:
        page = opened.page
        await page.goto(quoting.link())
        await page.wait_for_selector('body[data-link="open"]')
        for question in QUESTIONS:
            citations = await ask(page, question)
            marks += await page.locator(".answer .cite[data-packet]").count()
            assert await check(page, citations) == []
            await page.reload()
            await page.wait_for_selector(".turn .foot")
            assert await check(page, citations) == []
    assert marks >= len(QUESTIONS)
