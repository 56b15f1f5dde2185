"""The examples of the rules, compiled by tools/build_rules.py from src/respevents/rules/. Do not edit."""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    'anthropic.context.maximum': (
        'prompt is too long: 9001 tokens > 8192 maximum',
    ),
    'anthropic.rate.organization': (
        'This request would exceed the rate limit for your organization of 40,000 input tokens per minute.',
    ),
    'anthropic.rate.long-context': (
        'Number of request tokens has exceeded your per-minute rate limit',
    ),
    'anthropic.image.many': (
        'messages.84.content.1.image.source.base64.data: At least one of the image dimensions exceed max allowed size: 2000 pixels',
    ),
    'azure.policy.filtered': (
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    ),
    'azure.output.less': (
        'max_tokens must be less than or equal to 4096',
    ),
    'azure.model.deployment': (
        'The API deployment for this resource does not exist.',
    ),
    'bedrock.context.requested-model': (
        'ValidationException: Input is too long for requested model.',
    ),
    'bedrock.context.mantle': (
        'invalid_prompt: prompt tokens (9001) exceed model maximum (8192) for base model m',
    ),
    'bedrock.rate.wait': (
        'Too many tokens, please wait before trying again.',
    ),
    'bedrock.request.submit': (
        'SubmitRequestFailure: code=-32602, msg=2 validation errors for ResponsesRequest',
    ),
    'cerebras.context.current': (
        'Please reduce the length of the messages or completion. Current length is 9001 while limit is 8192',
    ),
    'cerebras.context.no-body': (
        '400 status code (no body)',
    ),
    'cohere.context.size-limit': (
        'too many tokens: size limit exceeded by 900 tokens. The limit for this model is 8192 tokens.',
    ),
    'cohere.output.size-limit': (
        'too many tokens: max tokens must be less than or equal to 4096, the maximum output length for this model - received 90000.',
    ),
    'cohere.context.total': (
        'too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9001.',
    ),
    'dashscope.policy.inspection': (
        'Input data may contain inappropriate content.',
    ),
    'deepseek.policy.risk': (
        'Content Exists Risk',
    ),
    'dynamo.overloaded.service': (
        'Service temporarily overloaded',
        'Service temporarily unavailable',
    ),
    'fireworks.context.maximum': (
        'The prompt is too long: 9001, model maximum context length: 8192',
    ),
    'gateway.truncated.upstream': (
        'upstream ended responses stream without a terminal event',
    ),
    'gateway.internal.stream': (
        'An error occurred in stream',
    ),
    'gateway.internal.unexpected': (
        'Internal server error: An unexpected error occurred.',
    ),
    'gemini.context.count': (
        'The input token count (9001) exceeds the maximum number of tokens allowed (8192).',
    ),
    'gemini.context.count-only': (
        'The input token count exceeds the maximum number of tokens allowed 8192.',
    ),
    'gemini.payload.size': (
        'Request payload size exceeds the limit: 20971520 bytes.',
    ),
    'gemini.overloaded.model': (
        'The model is overloaded. Please try again later.',
    ),
    'groq.rate.request': (
        'Request too large for model `m` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 9000',
    ),
    'groq.context.messages': (
        'Please reduce the length of the messages or completion.',
    ),
    'litellm.context.router': (
        'litellm._pre_call_checks: Context Window exceeded for given call. No models have context window large enough for this call.',
    ),
    'litellm.model.passed': (
        '/responses: Invalid model name passed in model=m. Call `/v1/models` to view available models for your key.',
    ),
    'litellm.truncated.closed': (
        'openai closed the responses stream before any terminal event (response.completed, response.incomplete or response.failed)',
    ),
    'litellm.internal.in-stream': (
        'Response API in-stream error',
    ),
    'llama_cpp.context.shift': (
        'context shift is disabled',
    ),
    'llama_cpp.context.available': (
        'request (9001 tokens) exceeds the available context size (8192 tokens), try increasing it',
        'the request exceeds the available context size. try increasing the context size or enable context shift',
    ),
    'llama_cpp.batch.physical': (
        'input (9001 tokens) is too large to process. increase the physical batch size (current batch size: 512)',
    ),
    'llama_cpp.internal.compute': (
        'Compute error.',
        'Invalid input batch.',
        'got exception: failed to process speculative batch',
    ),
    'lm_studio.context.keep': (
        'The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 9001 >= n_ctx: 8192).',
    ),
    'lm_studio.context.overflow-policy': (
        'Reached context length of 8192 tokens with model, but this model does not currently support mid-generation context overflow.',
    ),
    'lmdeploy.request.logprob-start': (
        'logprob_start_len(9000) exceeds the last source position for processed input_ids length(8000).',
    ),
    'lmdeploy.request.preprocess': (
        'Request preprocessing failed.',
    ),
    'lmdeploy.internal.server': (
        'An internal server error occurred.',
    ),
    'mistral.context.draft': (
        'Prompt contains 9001 tokens and 0 draft tokens, too large for model with 8192 maximum context length',
    ),
    'mistral.rate.capacity': (
        'Service tier capacity exceeded for this model.',
    ),
    'mlx.engine.thread': (
        'generation thread died',
        'SimpleEngine stopped while generation was in flight',
    ),
    'mlx.output.server-limit': (
        'max_tokens exceeds server limit (4096)',
    ),
    'ollama.context.currently': (
        'the prompt is longer than the context length currently available to the model; shorten the prompt',
    ),
    'ollama.context.max': (
        'the input length exceeds the context length',
        'input exceeds maximum context length and cannot be truncated further',
    ),
    'ollama.context.cloud': (
        '400 `prompt too long; exceeded max context length by 300 tokens`',
    ),
    'ollama.engine.runner': (
        'model runner crashed unexpectedly',
        'model runner has unexpectedly stopped, this may be due to resource limitations or an internal error: CUDA error: out of memory',
    ),
    'ollama.internal.unknown': (
        'something went wrong, please see the ollama server logs for details',
    ),
    'openai.context.window': (
        'Your input exceeds the context window of this model. Please adjust your input and try again.',
    ),
    'openai.context.configured': (
        'Input tokens exceed the configured limit of 8192 tokens. Your messages resulted in 9001 tokens.',
    ),
    'openai.rate.request': (
        'Request too large for m in organization org-x on tokens per min (TPM): Limit 30000, Requested 90000.',
    ),
    'openai.internal.processing': (
        'The server had an error while processing your request. Sorry about that!',
    ),
    'openai.internal.go': (
        'received error while streaming: ',
    ),
    'openrouter.context.endpoint': (
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9600 tokens (7600 of text input, 2000 in the output). Please reduce the length of either one.",
    ),
    'openrouter.quota.afford': (
        'This request requires more credits, or fewer max_tokens. You requested up to 9000 tokens, but can only afford 16.',
    ),
    'ray_serve.model.id': (
        'Could not find model with id "m".',
    ),
    'ray_serve.overloaded.replica': (
        'Request dropped due to backpressure (num_queued_requests=100, max_queued_requests=100).',
    ),
    'sglang.context.multimodal': (
        'Multimodal prompt is too long after expanding multimodal tokens. After expanding len(req.origin_input_ids_unpadded)=812 => 9001 >= 8191.',
    ),
    'sglang.batch.kv-budget': (
        'Request prompt exceeds the KV memory budget: input_len=90000.',
        'Request 1f2e exceeds the maximum number of tokens: 50000 > 40000',
    ),
    'sglang.queue.503': (
        '503: The request queue is full.',
    ),
    'sglang.request.store': (
        'Response store is disabled. Stateful Responses require --enable-response-store.',
    ),
    'sglang.internal.transfer': (
        'Decode transfer failed for request rank=0',
        'Prefill transfer failed for request rank=1',
    ),
    'sglang.cancelled.aborted': (
        'Generation aborted',
    ),
    'tensorrt_llm.context.value-error': (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
    ),
    'tensorrt_llm.context.default-max-tokens': (
        '`default_max_tokens` (-500) must be greater than 0, `default_max_tokens` (-500) = max_seq_len (8192) - `splited_prompt_len` (8692)',
    ),
    'tensorrt_llm.context.max-seq-len': (
        'The sum of prompt length (7000.0) and query length (0) max_tokens (2000) should not exceed max_seq_len (8192)',
    ),
    'tensorrt_llm.context.max-seq-len-short': (
        'prompt length (9001) should not exceed max_input_len (8192)',
    ),
    'tensorrt_llm.request.worker': (
        'context worker rejected the request with status 400',
    ),
    'tensorrt_llm.request.lora': (
        'Failed to load LoRA adapter: file not found',
    ),
    'tensorrt_llm.disagg.internal': (
        'Internal server error Cannot connect to host',
    ),
    'tgi.context.inputs': (
        'Input validation error: `inputs` must have less than 8192 tokens. Given: 9001',
    ),
    'tgi.context.inputs-and-new': (
        'Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8192. Given: 9001 `inputs` tokens and 16 `max_new_tokens`',
    ),
    'tgi.output.new-tokens': (
        'Input validation error: `max_new_tokens` must be <= 1024. Given: 9000',
    ),
    'tgi.image.size': (
        'Input validation error: invalid image: format error',
    ),
    'together.context.longer': (
        "The input (9001 tokens) is longer than the model's context length (8192 tokens).",
    ),
    'transformers.model.pinned': (
        "Server is pinned to 'a/b'; requested 'c'.",
    ),
    'transformers.request.item': (
        "Unsupported input item type: 'computer_call'",
    ),
    'vllm.output.model-len': (
        'max_output_tokens=90000 cannot be greater than max_model_len=8192. Please request fewer output tokens.',
    ),
    'vllm.request.no-api': (
        'The model does not support Responses API',
    ),
    'vllm.request.stream-options': (
        'Stream options can only be defined when `stream=True`.',
    ),
    'vllm.internal.generation': (
        'Internal server error',
    ),
    'xai.context.prompt-length': (
        "This model's maximum prompt length is 8192 but the request contains 9001 tokens.",
    ),
    'generic.context.resulted': (
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9123 tokens. Please reduce the length of the messages.",
    ),
    'generic.context.split': (
        "This model's maximum context length is 8192 tokens. However, you requested 9500 tokens (7500 in the messages, 2000 in the completion).",
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 9500 tokens (7500 of text input, 2000 in the output).",
    ),
    'generic.context.requested-messages': (
        "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens in the messages, Please reduce the length of the messages.",
    ),
    'generic.context.request-has': (
        "This model's maximum context length is 8192 tokens. However, your request has 9100 input tokens. Please reduce the length of the input messages. None",
    ),
    'generic.context.output-and-prompt': (
        "This model's maximum context length is 8192 tokens. However, you requested 512 output tokens and your prompt contains at least 7681 input tokens, for a total of at least 8193 tokens.",
    ),
    'generic.context.characters': (
        "This model's maximum context length is 8192 tokens. However, your prompt contains 900000 characters (more than 65536 characters, which is the upper bound for 8192 input tokens).",
    ),
    'generic.context.total-requested': (
        "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 9000 tokens: 7000 tokens from the input messages and 2000 tokens for the completion.",
    ),
    'generic.context.only': (
        "You passed 8000 input tokens and requested 500 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 7692 tokens.",
    ),
    'generic.context.only-characters': (
        "You passed 990000 input characters and requested 500 output tokens. However, the model's context length is only 8192 tokens.",
    ),
    'generic.context.too-long-numbers': (
        'prompt is too long: 9001 tokens > 8192 maximum',
        'The prompt is too long: 9001, model maximum context length: 8192',
        'Prompt too long: 9001 tokens exceeds max context window of 8192 tokens',
    ),
    'generic.context.request-too-long': (
        'Request too long: 9001 input tokens over the limit of 8192',
    ),
    'generic.context.token-count': (
        'The input token count (9001) exceeds the maximum number of tokens allowed (8192).',
        'The input token count exceeds the maximum number of tokens allowed 8192.',
        'prompt token count of 9001 exceeds the limit of 8192',
        'prompt tokens (9001) exceed model maximum (8192) for base model m',
        'Input tokens exceed the configured limit of 8192 tokens. Your messages resulted in 9001 tokens.',
    ),
    'generic.context.tokens-exceeded': (
        'Input Tokens Exceeded: Number of input tokens exceeds maximum length.',
        'The number of input tokens 9001 cannot exceed the total tokens limit 8192 for this model',
    ),
    'generic.context.input-length': (
        'Input length 9001 exceeds the maximum allowed input length of 8192 tokens.',
        'Requested input length 9001 exceeds maximum input length 8192',
        'Input length (9001 tokens) exceeds the maximum allowed length (8192 tokens).',
        'The engine prompt length 9001 exceeds the max_model_len 8192. Please reduce prompt.',
        "Input length (9001) exceeds model's maximum context length (8192).",
    ),
    'generic.context.longer-than-model': (
        'The decoder prompt (length 9001) is longer than the maximum model length of 8192.',
        'The decoder prompt (length 8192) plus the number of requested output tokens (at least 1) is longer than the maximum model length of 8192.',
    ),
    'generic.context.has-tokens': (
        'Prompt has 9,001 tokens, but the configured context size is 8,192 tokens',
        'Prompt contains 9001 tokens and 0 draft tokens, too large for model with 8192 maximum context length',
        'the prompt has 9001 tokens, more than max_model_len=8192; nothing is truncated',
    ),
    'generic.context.must-be-smaller': (
        'Input length (9001) must be smaller than the model context length (8192).',
    ),
    'generic.context.only-supports': (
        'Unable to submit request because the input token count is 9001 but model only supports up to 8192.',
    ),
    'generic.context.prompt-limit': (
        "This model's maximum prompt length is 8192 but the request contains 9001 tokens.",
    ),
    'generic.context.limit-is': (
        'Context limit is 8192 tokens; prompt=9001 leaves 0 output tokens, below the minimum 16',
    ),
    'generic.context.sum': (
        'input length and `max_tokens` exceed context limit: 7000 + 2000 > 8192, decrease input length or `max_tokens` and try again',
    ),
    'generic.context.model-token-limit': (
        'Invalid request: Your request exceeded model token limit: 8192',
    ),
    'generic.context.range': (
        '<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 8192]',
    ),
    'generic.context.max-length': (
        'Prompt exceeds max length',
    ),
    'generic.context.more-than-allowed': (
        'tokens in request more than max tokens allowed',
    ),
    'generic.context.is': (
        "This model's maximum context length is 8192 tokens.",
    ),
    'generic.context.token-limit': (
        "The prompt is 9001 tokens long, which exceeds the model's 8192 token limit",
    ),
    'generic.context.model-len': (
        'Prompt length of 9001 exceeds max_model_len 8192',
        'The input exceeds the maximum sequence length of 8192',
    ),
    'generic.context.number-of-tokens': (
        'The total number of tokens in the prompt exceeds the limit',
        'Total tokens of image and text exceed max message tokens',
        'This model only supports up to 8192 tokens of context',
    ),
    'generic.context.exceeds': (
        'Your input exceeds the context window of this model.',
        "The input (9000 tokens) is longer than the model's context length (8192 tokens).",
        'request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it',
        "It does not fit the model's maximum context length of 8192 tokens",
    ),
    'generic.context.window-exceeded': (
        'Context window exceeded for this call.',
        'Context size has been exceeded.',
    ),
    'generic.context.too-long': (
        'Input is too long for requested model.',
        'Prompt too long; exceeded max context length by 300 tokens',
        'Prompt is too long',
    ),
    'generic.context.reduce-messages': (
        'Please reduce the length of the messages or completion.',
        'Please reduce the length of the messages or completion. Current length is 9001 while limit is 8192',
    ),
    'generic.context.code-word': (
        'RequestError: context_length_exceeded: too much',
    ),
    'generic.batch.max-num-tokens': (
        'The sum of prompt length (9001.0), query length (0) should not exceed max_num_tokens (8192)',
    ),
    'generic.request.output-sign': (
        '`max_tokens` (0) must be greater than 0',
        'max_tokens must be at least 1, got 0.',
        '`max_tokens` must be set when `default_max_tokens` cannot be deduced',
    ),
    'generic.output.too-large-sum': (
        "'max_tokens' or 'max_completion_tokens' is too large: 3000. This model's maximum context length is 8192 tokens and your request has 6000 input tokens (3000 > 8192 - 6000).",
    ),
    'generic.output.too-large': (
        'max_tokens is too large: 128000. This model supports at most 16384 completion tokens, whereas you provided 128000.',
    ),
    'generic.output.limit': (
        'max_completion_tokens must be less than or equal to 4096',
        "max_tokens (90000) exceeds model's maximum output tokens (65536)",
        'max_tokens exceeds server limit (4096)',
        'max_output_tokens=90000 cannot be greater than max_model_len=8192. Please request fewer output tokens.',
        '`max_new_tokens` must be <= 1024. Given: 9000',
    ),
    'generic.output.max-comparison': (
        'max_tokens: 90000 > 64000, which is the maximum allowed number of output tokens for this model',
    ),
    'generic.output.supports-at-most': (
        'The model supports at most 4096 completion tokens, whereas you provided 9000.',
    ),
    'generic.request.too-long-field': (
        'string too long. Expected a string with maximum length 64, but got a string with length 99 instead.',
        'array too long.',
    ),
    'generic.request.invalid-field': (
        "Invalid value: 'x'. Supported values are: 'a'",
        "Invalid 'temperature': expected a number",
    ),
    'generic.request.validation': (
        '2 validation errors for ResponsesRequest\ninput\n  Field required [type=missing]',
    ),
    'generic.request.unsupported': (
        'Unsupported parameter: context. Remove it and try again.',
        'Unknown input type: computer_call',
        "Truncation mode 'auto' is not supported.",
    ),
    'generic.request.missing': (
        "Missing required parameter: 'input'.",
        "'input' is required",
    ),
    'generic.request.response-unknown': (
        "Response with id 'resp_9' not found.",
        'No tool output found for function call call_9.',
    ),
    'generic.request.user-message': (
        "Invalid user message={'role': 'user'}",
    ),
    'generic.request.malformed': (
        'Invalid JSON in the body',
    ),
    'generic.prompt.tokens': (
        'Prompt contains invalid tokens',
    ),
    'generic.policy.flagged': (
        'Your request was rejected as a result of our safety system.',
        'Invalid prompt: your prompt was flagged as potentially violating our usage policy.',
        'Your input was flagged',
    ),
    'generic.policy.guardrail': (
        'guardrail intervened',
    ),
    'generic.rate.per': (
        'Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 9000. Please try again in 11.5s.',
        'Request too large for m on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size',
    ),
    'generic.rate.limit': (
        'Rate limit exceeded for api_key: abc.',
        'You hit your request limit',
        'Too many requests',
    ),
    'generic.rate.tokens-throttled': (
        'Too many tokens, please wait before trying again.',
        'Resource exhausted. Please try again later.',
    ),
    'generic.quota.spent': (
        'You exceeded your current quota, please check your plan and billing details.',
        'Insufficient balance or no resource package. Please recharge.',
        'This request requires more credits, or fewer max_tokens. You requested up to 9000 tokens',
    ),
    'generic.quota.plan': (
        'The long context beta is not yet available for this subscription.',
    ),
    'generic.auth.key': (
        'Incorrect API key provided: sk-x.',
        'invalid x-api-key',
        'unauthorized',
    ),
    'generic.model.unknown': (
        'The model `m` does not exist.',
        "model 'm' not found",
        "Unknown model 'm', currently serving '['n']'.",
        'Could not find model with id "m".',
        'Loading lora sql failed: No adapter found for <path>',
    ),
    'generic.multimodal.count': (
        'At most 1 image(s) may be provided in one prompt.',
        'Image count 9 exceeds limit 4 per request.',
    ),
    'generic.image.bad': (
        'Could not decode image: cannot identify image file',
        'Failed to fetch media from URL: HTTP 404 error',
        'Image size 30000000 bytes exceeds maximum allowed size of 20000000 bytes',
        'Failed to load image or audio file',
        'Remote media URL is not allowed',
    ),
    'generic.multimodal.item': (
        'The decoder prompt contains a(n) image item with 9000 embedding tokens, which exceeds the pre-allocated encoder cache size 8192. Please reduce the input size',
        'Remote media exceeds the 52428800 byte download limit',
        'This model does not support image input',
    ),
    'generic.grammar.bad': (
        "Grammar error: Expected ':' at line 1",
        'The provided JSON schema contains features not supported by xgrammar.',
        'Failed to transform regex into a grammar: unterminated group',
        'Cannot use both json_schema and grammar',
        'Grammar preprocessing timed out',
    ),
    'generic.payload.bytes': (
        '413 Request Entity Too Large',
        'Sent message larger than max (50000056 vs. 20971520)',
        'Request exceeds the maximum allowed number of bytes.',
    ),
    'generic.queue.full': (
        'The request queue is full.',
        'no slot available',
        'The engine has reached its prefill token backlog limit. Please try again later or on a different instance.',
    ),
    'generic.overloaded.now': (
        'Model is overloaded',
        'Service temporarily unavailable',
        'Retracted under decode memory pressure without a KV backup. Retry later.',
        'Selected model is at capacity. Please try a different model.',
        'model limit reached, try again later',
    ),
    'generic.timeout.gateway': (
        'Request timed out.',
        '504 Gateway Time-out',
        'maximum context length: context deadline exceeded',
        'Request waiting timeout reached.',
    ),
    'generic.cancelled.by-request': (
        'Request cancelled',
        'The request was cancelled.',
        'maximum context length: context canceled',
        'Generation aborted',
        'request cancelled by user',
    ),
    'generic.client.gone': (
        'Client disconnected',
        'Request is disconnected from the client side (type 1). Abort request',
    ),
    'generic.truncated.stream': (
        'upstream ended responses stream without a terminal event',
        'gemini stream ended without a finish reason',
        'stream disconnected before completion',
        'Incomplete generation stream',
    ),
    'generic.read.broken': (
        'read tcp 10.0.0.2:51234->10.0.0.1:443: connection reset by peer',
        'Response payload is not completed: <TransferEncodingError>',
        'peer closed connection without sending complete message body',
        'Connection error.',
        'Raw SSE stream exceeded maximum buffered size without a frame delimiter',
    ),
    'generic.read.wrapper': (
        '502 Bad Gateway',
        'failed to start streaming: backend returned status 400',
        'Provider returned error',
    ),
    'generic.request.range': (
        'temperature must be in [0, 2], got 3.',
        'best_of is not supported',
    ),
    'generic.memory.out': (
        'CUDA out of memory. Tried to allocate 2.00 GiB.',
        'Out of memory even after retracting all other requests in the decode batch.',
        'model requires more system memory (12.0 GiB) than is available (8.0 GiB)',
    ),
    'generic.engine.dead': (
        'The engine has died',
        'generation thread died',
        'model runner has unexpectedly stopped, this may be due to resource limitations',
        'EngineCore encountered an issue. See stack trace (above) for the root cause.',
        'CB worker is dead and cannot accept request abc',
    ),
}
"""Id of a rule -> texts that its wording is for."""
