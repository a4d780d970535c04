"""Memory plans against what an engine really allocates, and the limits that follow from them."""

from __future__ import annotations

import pytest

from mtpcore import LLM, SamplingParams
from mtpcore.cli.plan import report


@pytest.mark.parametrize("mtp_step", [0, 3])
def test_plan_equals_what_is_allocated(mtp_step: int) -> None:
    options = {
        "dtype": "float32",
        "max_num_seqs": 4,
        "max_model_len": 512,
        "mtp_mode": "mtp" if mtp_step else "none",
        "mtp_step": mtp_step,
    }
    planned = {
        pool["name"]: pool["bytes"] for pool in report(None, "200MiB", None, options)["pools"]
    }
    with LLM(memory_budget="200MiB", device="cpu", **options) as llm:
        allocated = llm.engine.worker.pools.num_bytes()
    for name in ("weights", "kv_pages", "ssm_state", "conv_state", "checkpoints"):
        assert planned[name] == allocated[name], name


def test_a_full_context_request_ends_by_length() -> None:
    limit = 64
    with LLM(max_model_len=limit, max_num_seqs=2, mtp_step=7, memory_budget="200MiB") as llm:
        params = SamplingParams(temperature=0.0, max_tokens=None, ignore_eos=True)
        prompts = [{"prompt_token_ids": [300 + i, 301, 302]} for i in range(3)]
        for out in llm.generate(prompts, params):
            assert out.outputs[0].finish_reason == "length"
            assert len(out.outputs[0].token_ids) == limit - 3
