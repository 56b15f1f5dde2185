"""Everything a server needs to stream `/v1/responses` events the way OpenAI does."""
