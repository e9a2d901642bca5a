"""The real model: what it is known to say."""

import numpy as np

from gaiad.models.gguf.gguf_header import read_header
from gaiad.ports import Call


async def test_minilm_knows_what_belongs_together(open_embedder, minilm):
    embedder = await open_embedder(minilm)
    assert embedder.dimension == 384
    sentences = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    rows = await embedder.embed(sentences, Call())
    cosines = rows @ rows.T
    # what the model's published card gives for these sentences
    assert np.allclose(cosines[0], [1.0, 0.695, 0.943, 0.257], atol=0.005)


async def test_minilm_reads_a_long_text_to_its_end(open_embedder, minilm):
    embedder = await open_embedder(minilm)
    filler = "The meeting went on about the budget of the next year. " * 60
    end = "Volcanoes erupt molten lava and ash. " * 60
    plain, ending, topic = await embedder.embed([filler, filler + end, "volcanic eruption"], Call())
    assert ending @ topic > plain @ topic + 0.15, "the second half of the text left no trace"


def test_minilm_header(minilm):
    header = read_header(minilm)
    assert (header.architecture, header.context, header.embedding, header.pooling) == ("bert", 512, 384, "mean")
