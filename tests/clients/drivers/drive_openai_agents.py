"""openai-agents: Runner.run_streamed with the Responses model."""

import asyncio
import importlib.metadata

import openai
from _driver import serve
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

set_tracing_disabled(disabled=True)


@function_tool
def get_weather(city: str) -> str:
    """The weather."""
    return "sunny"


def case(url, result):
    async def go():
        client = openai.AsyncOpenAI(base_url=url, api_key="none")
        agent = Agent(name="a", model=OpenAIResponsesModel(model="m", openai_client=client), tools=[get_weather])
        run = Runner.run_streamed(agent, "say hi", max_turns=3)
        async for event in run.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                result["text"] += event.data.delta or ""
            if event.type == "run_item_stream_event" and event.name == "tool_called":
                result["calls"].append(getattr(event.item.raw_item, "name", event.item.raw_item.type))
        result["final"] = str(run.final_output)[:200]

    asyncio.run(go())


serve(importlib.metadata.version("openai-agents"), case)
