// The openai package in typical use: stream, no stream, completions, models, errors, abort. Usage: node openai_client.mjs BASE_URL
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.argv[2] + '/v1', apiKey: 'none', maxRetries: 0, timeout: 100_000 });
const messages = [
  { role: 'system', content: 'You are brief.' },
  { role: 'user', content: 'Where does the river begin? '.repeat(20) },
];
const request = { model: 'test-model', messages, max_tokens: 60, seed: 3 };

const whole = await client.chat.completions.create(request);
assert.equal(whole.object, 'chat.completion');
assert.equal(whole.choices[0].message.role, 'assistant');
assert.equal(whole.choices[0].finish_reason, 'length');
assert.equal(whole.usage.completion_tokens, 60);
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + 60);

async function streamed() {
  let text = '';
  let usage = null;
  const finishes = [];
  const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    text += chunk.choices[0]?.delta?.content ?? '';
    if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason);
    if (chunk.usage) usage = chunk.usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.deepEqual(finishes, ['length']);
  assert.equal(usage.prompt_tokens, whole.usage.prompt_tokens);
  return usage.prompt_tokens_details.cached_tokens;
}
// KV events reach a gateway a moment after the answer, so the next request may still go to the other worker; but two workers can
// miss only once each.
const cached = [await streamed(), await streamed()];
assert.ok(cached[1] > 0, `the blocks of earlier requests are found: ${cached}`);

const helper = await client.chat.completions.stream({ ...request }).finalContent();
assert.equal(helper, whole.choices[0].message.content);

const completion = await client.completions.create({ model: 'test-model', prompt: 'Once upon a time', max_tokens: 12 });
assert.equal(completion.choices[0].text.length, 12);

const models = await client.models.list();
assert.equal(models.data[0].id, 'test-model');

await assert.rejects(client.chat.completions.create({ ...request, model: 'other' }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ ...request, messages: [] }), OpenAI.BadRequestError);

// Abort: the client disconnects after three chunks of an answer of thousands; the caller checks that the engine stopped.
const controller = new AbortController();
let chunks = 0;
await assert.rejects(async () => {
  const long = await client.chat.completions.create(
    { ...request, max_tokens: 8000, stream: true, ...{ ignore_eos: true } }, { signal: controller.signal });
  for await (const chunk of long) {
    if (chunk.choices[0]?.delta?.content && ++chunks === 3) controller.abort();
  }
  throw new OpenAI.APIUserAbortError();  // some versions end the loop quietly instead of throwing
}, OpenAI.APIUserAbortError);
assert.equal(chunks >= 3, true);
console.log('openai client ok');
