"""pydantic-ai: Agent.run_stream with the Responses model."""

import asyncio
import importlib.metadata

from _driver import serve
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider


def case(url, result):
    async def go():
        agent = Agent(OpenAIResponsesModel("m", provider=OpenAIProvider(base_url=url, api_key="none")))

        @agent.tool_plain
        def get_weather(city: str) -> str:
            result["calls"].append("get_weather")
            return "sunny"

        async with agent.run_stream("say hi") as run:
            async for text in run.stream_text(delta=True, debounce_by=None):
                result["text"] += text
        result["final"] = run.response.finish_reason

    asyncio.run(go())


serve(importlib.metadata.version("pydantic-ai-slim"), case)
