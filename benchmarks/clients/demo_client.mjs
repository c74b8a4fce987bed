// The published demo's method of measuring, as its load generator has it: fetch() per request, performance.now() around it, a chunk counts if
// its delta has content, ITL is the mean of a request's gaps, and a percentile is the value at floor(n * q).
// usage: demo_client.mjs URL STREAMS TOKENS RAMP_S WARMUP_S SECONDS -> JSON on standard output
const [url, ...numbers] = process.argv.slice(2);
const [streams, tokens, rampS, warmupS, seconds] = numbers.map(Number);
const body = JSON.stringify({ model: "reference", stream: true, max_tokens: tokens, messages: [{ role: "user", content: "x".repeat(64) }] });
const begin = performance.now();
const measureFrom = begin + 1e3 * warmupS;
const end = measureFrom + 1e3 * seconds;
const ttft = [], itl = [], gaps = [], latency = [];
let failed = 0;

async function request() {
  const start = performance.now();
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers: { "content-type": "application/json" }, body });
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  const decoder = new TextDecoder();
  let rest = "", first = 0, last = 0;
  const own = [];
  for await (const bytes of response.body) {
    rest += decoder.decode(bytes, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
      if (!JSON.parse(line.slice(6)).choices?.[0]?.delta?.content) continue;
      const now = performance.now();
      if (first === 0) first = now;
      else own.push(now - last);
      last = now;
    }
  }
  if (start < measureFrom || start > end) return;
  ttft.push(first - start);
  itl.push(own.reduce((a, b) => a + b, 0) / own.length);
  for (const gap of own) gaps.push(gap);
  latency.push(performance.now() - start);
}

async function user(index) {
  await new Promise((resolve) => setTimeout(resolve, (1e3 * rampS * index) / streams));
  while (performance.now() < end) {
    try {
      await request();
    } catch {
      failed++;
    }
  }
}

await Promise.all(Array.from({ length: streams }, (_, index) => user(index)));
const percentiles = (values) => {
  const sorted = Float64Array.from(values).sort();
  return Object.fromEntries([50, 95, 99].map((p) => [`p${p}`, sorted[Math.min(sorted.length - 1, Math.floor((sorted.length * p) / 100))] ?? null]));
};
console.log(JSON.stringify({ failed, ttft_ms: percentiles(ttft), itl_ms: percentiles(gaps), request_mean_itl_ms: percentiles(itl), latency_ms: percentiles(latency) }));
