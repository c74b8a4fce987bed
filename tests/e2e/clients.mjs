// What users of four npm packages do, against one server: texts, streams, tools, errors. The model always generates the token that is
// a whole call where a request asks for that by its biases. Usage: node clients.mjs BASE_URL TOKEN
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { ChatOpenAI } from '@langchain/openai';
import { HumanMessage, ToolMessage } from '@langchain/core/messages';
import { APICallError, generateText, stepCountIs, streamText, tool } from 'ai';
import OpenAI from 'openai';
import { z } from 'zod';

const [base, token] = process.argv.slice(2);
const MODEL = 'test-model';
const QUESTION = 'What is the weather in Oslo? '.repeat(12);
const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const calls = { logit_bias: { [token]: 100 }, stop_token_ids: [Number(token)], include_stop_str_in_output: true };
const OSLO = { city: 'Oslo' };

const openai = new OpenAI({ baseURL: base + '/v1', apiKey: 'none', maxRetries: 0, timeout: 100_000 });
const anthropic = new Anthropic({ baseURL: base, apiKey: 'none', maxRetries: 0, timeout: 100_000 });
const vercel = createOpenAICompatible({ name: 'kvist', baseURL: base + '/v1', apiKey: 'none', includeUsage: true });
const langchain = (fields = {}, more = {}) => new ChatOpenAI({
  model: MODEL, apiKey: 'none', maxTokens: 12, temperature: 0, maxRetries: 0, configuration: { baseURL: base + '/v1' },
  modelKwargs: fields, ...more });

const chat = { model: MODEL, messages: [{ role: 'user', content: QUESTION }], max_tokens: 12, temperature: 0 };
const message = { model: MODEL, messages: [{ role: 'user', content: QUESTION }], max_tokens: 12, temperature: 0 };
const response = { model: MODEL, input: QUESTION, max_output_tokens: 12, temperature: 0 };
const reference = (await openai.chat.completions.create(chat)).choices[0].message.content;
assert.ok(reference.length > 0);

const tests = {
  async 'openai: chat completions'() {
    let text = '';
    let usage;
    for await (const chunk of await openai.chat.completions.create({ ...chat, stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, reference);
    assert.equal(usage.completion_tokens, 12);
    const tools = [{ type: 'function', function: { name: 'get_weather', parameters: schema } }];
    const called = await openai.chat.completions.stream({ ...chat, ...calls, tools }).finalChatCompletion();
    assert.deepEqual(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments), OSLO);
    assert.equal(called.choices[0].finish_reason, 'tool_calls');
  },

  async 'openai: models'() {
    assert.equal((await openai.models.list()).data[0].id, MODEL);
    assert.equal((await openai.models.retrieve(MODEL)).id, MODEL);
    await assert.rejects(openai.models.retrieve('org/other'), OpenAI.NotFoundError);
  },

  async 'openai: responses'() {
    const whole = await openai.responses.create(response);
    assert.equal(whole.output_text, reference);
    assert.equal(whole.status, 'incomplete');
    assert.equal(whole.incomplete_details.reason, 'max_output_tokens');
    assert.equal(whole.usage.output_tokens, 12);
    assert.equal(whole.usage.total_tokens, whole.usage.input_tokens + 12);
    assert.ok(whole.usage.input_tokens_details.cached_tokens > 0, 'the prompt was asked before');
    const events = [];
    for await (const event of await openai.responses.create({ ...response, stream: true })) events.push(event);
    assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, i) => i));
    assert.equal(events.filter((event) => event.type === 'response.output_text.delta').map((event) => event.delta).join(''), reference);
    assert.equal(events.at(-1).type, 'response.incomplete');
    // The package puts the events together itself.
    const put_together = await openai.responses.stream(response).finalResponse();
    assert.equal(put_together.output_text, reference);
    assert.deepEqual(put_together.usage.output_tokens, 12);
  },

  async 'openai: responses with tools'() {
    const tools = [{ type: 'function', name: 'get_weather', parameters: schema, strict: false }];
    const asked = { ...response, ...calls, tools };
    const whole = await openai.responses.create(asked);
    const call = whole.output.find((item) => item.type === 'function_call');
    assert.equal(whole.status, 'completed');
    assert.equal(call.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.arguments), OSLO);
    const streamed = await openai.responses.stream(asked).finalResponse();
    assert.deepEqual(streamed.output.map((item) => [item.type, item.name, item.arguments]), [['function_call', 'get_weather', call.arguments]]);
    const told = await openai.responses.create({
      ...response, tools,
      input: [{ role: 'user', content: QUESTION }, ...whole.output, { type: 'function_call_output', call_id: call.call_id, output: 'Rain' }],
    });
    assert.ok(told.usage.input_tokens > whole.usage.input_tokens);
  },

  async 'openai: errors'() {
    await assert.rejects(openai.chat.completions.create({ ...chat, model: 'other' }), OpenAI.NotFoundError);
    await assert.rejects(openai.chat.completions.create({ ...chat, messages: [] }), OpenAI.BadRequestError);
    await assert.rejects(openai.responses.create({ ...response, model: 'other' }), OpenAI.NotFoundError);
    await assert.rejects(openai.responses.create({ ...response, previous_response_id: 'resp_1' }),
      (error) => error instanceof OpenAI.UnprocessableEntityError && error.param === 'previous_response_id');
    await assert.rejects(openai.chat.completions.create({ ...chat, messages: [{ role: 'user', content: 'x '.repeat(20_000) }] }),
      (error) => error instanceof OpenAI.BadRequestError && error.code === 'context_length_exceeded');
  },

  async 'anthropic: messages'() {
    const whole = await anthropic.messages.create(message);
    assert.equal(whole.type, 'message');
    assert.equal(whole.content[0].text, reference);
    assert.equal(whole.stop_reason, 'max_tokens');
    assert.equal(whole.usage.output_tokens, 12);
    assert.ok(whole.usage.cache_read_input_tokens > 0, 'the prompt was asked before');
    assert.ok(whole._request_id);
    const counted = await anthropic.messages.countTokens({ model: MODEL, messages: message.messages });
    assert.equal(counted.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
    // The package puts the events together itself.
    const stream = anthropic.messages.stream({ ...message, system: 'You are brief.' });
    let text = '';
    stream.on('text', (part) => { text += part; });
    const final = await stream.finalMessage();
    assert.equal(final.content[0].text, text);
    assert.equal(final.stop_reason, 'max_tokens');
    assert.equal(final.usage.output_tokens, 12);
    const with_system = await anthropic.messages.countTokens({ model: MODEL, messages: message.messages, system: 'You are brief.' });
    assert.equal(final.usage.input_tokens + final.usage.cache_read_input_tokens, with_system.input_tokens);
    assert.notEqual(with_system.input_tokens, counted.input_tokens);
    const types = [];
    for await (const event of await anthropic.messages.create({ ...message, stream: true })) types.push(event.type);
    assert.deepEqual([types[0], types[1], ...types.slice(-3)],
      ['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop']);
  },

  async 'anthropic: messages with tools'() {
    const tools = [{ name: 'get_weather', input_schema: schema }];
    const asked = { ...message, ...calls, tools };
    const whole = await anthropic.messages.create(asked);
    const call = whole.content.find((block) => block.type === 'tool_use');
    assert.equal(whole.stop_reason, 'tool_use');
    assert.deepEqual([call.name, call.input], ['get_weather', OSLO]);
    const streamed = await anthropic.messages.stream(asked).finalMessage();
    assert.deepEqual(streamed.content.map((block) => [block.type, block.name, block.input]), [['tool_use', 'get_weather', OSLO]]);
    const told = await anthropic.messages.create({
      ...message, tools,
      messages: [...message.messages, { role: 'assistant', content: whole.content },
        { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: 'Rain' }] }],
    });
    const tokens = (usage) => usage.input_tokens + usage.cache_read_input_tokens;
    assert.ok(tokens(told.usage) > tokens(whole.usage));
  },

  async 'anthropic: errors'() {
    const types = async (request) => {
      try {
        await anthropic.messages.create(request);
      } catch (error) {
        return [error.constructor.name, error.status, error.error?.error?.type];
      }
    };
    assert.deepEqual(await types({ ...message, model: 'other' }), ['NotFoundError', 404, 'not_found_error']);
    assert.deepEqual(await types({ ...message, messages: [] }), ['BadRequestError', 400, 'invalid_request_error']);
    assert.deepEqual(await types({ ...message, messages: [{ role: 'user', content: 'x '.repeat(20_000) }] }),
      ['BadRequestError', 400, 'invalid_request_error']);
    assert.deepEqual(await types({ ...message, tools: [{ type: 'web_search_20250305', name: 'web_search' }] }),
      ['UnprocessableEntityError', 422, 'invalid_request_error']);
    await assert.rejects(async () => {
      for await (const _ of await anthropic.messages.create({ ...message, model: 'other', stream: true }));
    }, Anthropic.NotFoundError);
  },

  async 'ai: generateText, streamText'() {
    const asked = { model: vercel(MODEL), prompt: QUESTION, maxOutputTokens: 12, temperature: 0, maxRetries: 0 };
    const whole = await generateText(asked);
    assert.equal(whole.text, reference);
    assert.equal(whole.finishReason, 'length');
    assert.equal(whole.usage.outputTokens, 12);
    const stream = streamText(asked);
    let text = '';
    for await (const part of stream.textStream) text += part;
    assert.equal(text, reference);
    assert.equal((await stream.usage).outputTokens, 12);
    await assert.rejects(generateText({ ...asked, model: vercel('other') }),
      (error) => APICallError.isInstance(error) && error.statusCode === 404 && error.message.includes('other'));
  },

  async 'ai: tools'() {
    const ran = [];
    const asked = {
      model: vercel(MODEL), prompt: QUESTION, maxOutputTokens: 12, temperature: 0, maxRetries: 0, stopWhen: stepCountIs(2),
      providerOptions: { kvist: calls },
      tools: { get_weather: tool({ description: 'The weather.', inputSchema: z.object({ city: z.string() }),
        execute: async (input) => { ran.push(input); return 'Rain'; } }) },
    };
    const whole = await generateText(asked);
    assert.deepEqual(ran, [OSLO, OSLO]);
    assert.deepEqual(whole.steps.map((step) => step.finishReason), ['tool-calls', 'tool-calls']);
    const stream = streamText(asked);
    for await (const _ of stream.fullStream);
    assert.equal(ran.length, 4);
    assert.deepEqual((await stream.steps).map((step) => step.toolResults[0].output), ['Rain', 'Rain']);
  },

  async '@langchain/openai: invoke, stream, tools'() {
    const whole = await langchain().invoke(QUESTION);
    assert.equal(whole.content, reference);
    assert.equal(whole.usage_metadata.output_tokens, 12);
    let text = '';
    for await (const chunk of await langchain().stream(QUESTION)) text += chunk.content;
    assert.equal(text, reference);
    const tools = [{ type: 'function', function: { name: 'get_weather', description: 'The weather.', parameters: schema } }];
    const called = await langchain(calls).bindTools(tools).invoke(QUESTION);
    assert.deepEqual([called.tool_calls[0].name, called.tool_calls[0].args], ['get_weather', OSLO]);
    const told = await langchain().bindTools(tools).invoke(
      [new HumanMessage(QUESTION), called, new ToolMessage({ content: 'Rain', tool_call_id: called.tool_calls[0].id })]);
    assert.ok(told.usage_metadata.input_tokens > called.usage_metadata.input_tokens);
    await assert.rejects(langchain({}, { model: 'other' }).invoke(QUESTION), (error) => error.status === 404);
  },

  async '@langchain/openai: responses'() {
    const whole = await langchain({}, { useResponsesApi: true }).invoke(QUESTION);
    assert.equal(whole.text, reference);
    let text = '';
    for await (const chunk of await langchain({}, { useResponsesApi: true }).stream(QUESTION)) text += chunk.text;
    assert.equal(text, reference);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log('ok      ' + name);
  } catch (error) {
    ++failed;
    console.log('FAILED  ' + name + '\n', error);
  }
}
console.log(`${Object.keys(tests).length - failed} uses work, ${failed} do not`);
process.exit(failed === 0 ? 0 : 1);
