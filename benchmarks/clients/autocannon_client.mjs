// autocannon measures whole answers: latency alone.
// usage: autocannon_client.mjs URL STREAMS TOKENS RAMP_S WARMUP_S SECONDS -> JSON on standard output
import autocannon from "autocannon";

const [url, ...numbers] = process.argv.slice(2);
const [streams, tokens, , warmupS, seconds] = numbers.map(Number);
const options = {
  url: `${url}/v1/chat/completions`,
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ model: "reference", stream: true, max_tokens: tokens, messages: [{ role: "user", content: "x".repeat(64) }] }),
  connections: streams,
  timeout: 600,
};
await autocannon({ ...options, duration: warmupS });
const { latency, errors, non2xx } = await autocannon({ ...options, duration: seconds });
console.log(JSON.stringify({ failed: errors + non2xx, latency_ms: { p50: latency.p50, p95: null, p99: latency.p99 } }));
