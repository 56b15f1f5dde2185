"""litellm: litellm.responses(stream=True)."""

import importlib.metadata
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is fetched

import litellm
from _driver import serve

litellm.suppress_debug_info = True


def case(url, result):
    stream = litellm.responses(
        model="openai/m", input="say hi", stream=True, api_base=url, api_key="none", num_retries=0
    )
    for event in stream:
        kind = str(getattr(event, "type", ""))
        kind = getattr(getattr(event, "type", None), "value", kind)
        if kind in {"response.output_text.delta", "response.refusal.delta"}:
            result["text"] += event.delta or ""
        elif kind == "response.output_item.done":
            item = event.item if isinstance(event.item, dict) else event.item.model_dump()
            if item.get("type") in {"function_call", "custom_tool_call", "apply_patch_call"}:
                result["calls"].append(item.get("name") or item["type"])
        elif kind in {"response.completed", "response.incomplete", "response.failed"}:
            result["terminal"] = kind
            result["final"] = getattr(event.response, "status", None)


serve(importlib.metadata.version("litellm"), case)
