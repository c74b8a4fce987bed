// Tool calls as users of the openai package see them. The model always generates the token that is a whole call.
// Usage: node tool_calls_client.mjs BASE_URL TOKEN
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [base, token] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base + '/v1', apiKey: 'none', maxRetries: 0, timeout: 30_000 });
const tools = [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
const messages = [{ role: 'user', content: 'What is the weather in Oslo?' }];
const request = { model: 'test-model', messages, tools, logit_bias: { [token]: 100 }, temperature: 0, max_tokens: 2 };
const ended = { ...request, stop_token_ids: [Number(token)], include_stop_str_in_output: true };

function check(message, count) {
  assert.equal(message.content ?? '', '');
  assert.equal(message.tool_calls.length, count);
  for (const call of message.tool_calls) {
    assert.equal(call.type, 'function');
    assert.equal(call.function.name, 'get_weather');
    assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Oslo' });
  }
  assert.equal(new Set(message.tool_calls.map((call) => call.id)).size, count);
}

const whole = await client.chat.completions.create(request);
check(whole.choices[0].message, 2);
assert.equal(whole.choices[0].finish_reason, 'length');

const one = await client.chat.completions.create(ended);
check(one.choices[0].message, 1);
assert.equal(one.choices[0].finish_reason, 'tool_calls');
check((await client.chat.completions.create({ ...request, parallel_tool_calls: false })).choices[0].message, 1);

// The package itself merges the deltas of a stream.
const streamed = await client.chat.completions.stream(ended).finalChatCompletion();
check(streamed.choices[0].message, 1);
assert.equal(streamed.choices[0].finish_reason, 'tool_calls');
const deltas = [];
for await (const chunk of await client.chat.completions.create({ ...request, stream: true }))
  for (const call of chunk.choices[0]?.delta?.tool_calls ?? []) deltas.push(call);
assert.deepEqual(deltas.map((call) => call.index), [0, 0, 1, 1]);
assert.deepEqual(deltas.map((call) => call.function.name), ['get_weather', undefined, 'get_weather', undefined]);

const silent = await client.chat.completions.create({ ...request, tool_choice: 'none' });
assert.equal(silent.choices[0].message.tool_calls, undefined);
assert.ok(silent.choices[0].message.content.startsWith('<tool_call>'));
assert.equal(silent.usage.prompt_tokens, whole.usage.prompt_tokens);

for (const tool_choice of ['required', { type: 'function', function: { name: 'get_weather' } }])
  await assert.rejects(client.chat.completions.create({ ...request, tool_choice }), OpenAI.BadRequestError);

// The call and the tool's result go back into the prompt.
const told = await client.chat.completions.create({
  ...request,
  messages: [...messages, one.choices[0].message, { role: 'tool', tool_call_id: one.choices[0].message.tool_calls[0].id, content: 'Rain, 7 degrees' }],
});
assert.ok(told.usage.prompt_tokens > whole.usage.prompt_tokens + 10);

const open = [...messages, { role: 'assistant', content: 'In Oslo it' }];
const going_on = await client.chat.completions.create({ ...request, messages: open, add_generation_prompt: false, continue_final_message: true });
const closed = await client.chat.completions.create({ ...request, messages: open });
assert.ok(going_on.usage.prompt_tokens < closed.usage.prompt_tokens);
await assert.rejects(
  client.chat.completions.create({ ...request, messages: open, add_generation_prompt: true, continue_final_message: true }),
  OpenAI.BadRequestError);
console.log('tool calls ok');
