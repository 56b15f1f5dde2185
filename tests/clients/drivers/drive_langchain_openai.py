"""langchain-openai: ChatOpenAI over the Responses API, streamed."""

import importlib.metadata

from _driver import serve
from langchain_openai import ChatOpenAI


def case(url, result):
    model = ChatOpenAI(model="m", base_url=url, api_key="none", use_responses_api=True)
    for chunk in model.stream("say hi"):
        result["text"] += (
            "".join(
                part.get("text", "") for part in chunk.content if isinstance(part, dict) and part.get("type") == "text"
            )
            if isinstance(chunk.content, list)
            else chunk.content
        )
        result["calls"] += [call["name"] for call in chunk.tool_calls if call["name"]]
        result["final"] = chunk.response_metadata.get("status") or result.get("final")


serve(importlib.metadata.version("langchain-openai"), case)
