"""The real model: what it is known to say."""

import numpy as np

from gaiad.base.clock import SystemClock
from gaiad.base.config import load_config
from gaiad.base.ports import RequestContext
from gaiad.models.embedder import WorkerEmbedder
from gaiad.models.gguf.gguf_header import read_header
from gaiad.models.provision import MINILM_HEAD


async def test_minilm_knows_what_belongs_together(open_embedder, minilm):
    embedder = await open_embedder(minilm)
    assert embedder.dimension == 384
    sentences = ["That is a happy person", "That is a happy dog", "That is a very happy person", "Today is a sunny day"]
    rows = await embedder.embed(sentences, RequestContext())
    cosines = rows @ rows.T
    # what the model's published card gives for these sentences
    assert np.allclose(cosines[0], [1.0, 0.695, 0.943, 0.257], atol=0.005)


async def test_minilm_reads_a_long_text_to_its_end(open_embedder, minilm):
    embedder = await open_embedder(minilm)
    filler = "The meeting went on about the budget of the next year. " * 60
    end = "Volcanoes erupt molten lava and ash. " * 60
    plain, ending, topic = await embedder.embed([filler, filler + end, "volcanic eruption"], RequestContext())
    assert ending @ topic > plain @ topic + 0.15, "the second half of the text left no trace"


def test_minilm_header(minilm):
    header = read_header(minilm)
    assert (header.architecture, header.context, header.embedding, header.pooling) == ("bert", 512, 384, "mean")


async def test_the_head_known_before_the_file_is_there_is_the_files_own(open_embedder, minilm):
    embedder = await open_embedder(minilm, wait=False)
    early = WorkerEmbedder(minilm, load_config(environment={}).embedder, SystemClock("UTC"), head=MINILM_HEAD)
    assert (early.fingerprint, early.dimension) == (embedder.fingerprint, embedder.dimension)
