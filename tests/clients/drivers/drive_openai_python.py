"""openai-python: `create` (responses.create(stream=True)) or `stream` (the helper)."""

import sys

import openai
from _driver import serve

CALLS = {"function_call", "custom_tool_call", "apply_patch_call"}


def note(event, result):
    kind = getattr(event, "type", None)
    if kind in {"response.output_text.delta", "response.refusal.delta"}:
        result["text"] += event.delta or ""
    elif kind == "response.output_item.done" and getattr(event.item, "type", None) in CALLS:
        result["calls"].append(getattr(event.item, "name", event.item.type))
    elif kind in {"response.completed", "response.incomplete", "response.failed"}:
        result["terminal"] = kind
        error = getattr(event.response, "error", None)
        result["code"] = getattr(error, "code", None)
    elif kind == "error":
        result["error_event"] = getattr(event, "code", None) or "?"


def create(url, result):
    client = openai.OpenAI(base_url=url, api_key="none")
    for event in client.responses.create(model="m", input="say hi", stream=True):
        note(event, result)


def stream(url, result):
    client = openai.OpenAI(base_url=url, api_key="none")
    with client.responses.stream(model="m", input="say hi") as events:
        for event in events:
            note(event, result)
        events.get_final_response()


serve(openai.__version__, {"create": create, "stream": stream}[sys.argv[1]])
