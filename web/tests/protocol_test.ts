import assert from "node:assert/strict";
import test from "node:test";
import { comparison, level, liveHistory, run, runs, workersHistory } from "../src/protocol/answers.ts";
import { parseMessage } from "../src/protocol/messages.ts";
import { Malformed } from "../src/protocol/read.ts";
import { conversation } from "../src/protocol/topics.ts";
import * as made from "./messages.ts";

function parse(message: unknown) {
  return parseMessage(JSON.stringify(message));
}

test("every kind of message is read", () => {
  const all = [made.hello(), made.baseline(), made.events(), made.sample(100), made.sweep(), made.conversations(), made.decisions(), { type: "reply", id: 1, ok: true, result: {} }];
  assert.deepEqual(all.map((message) => parse(message)?.type), ["hello", "baseline", "events", "sample", "sweep", "conversations", "decisions", "reply"]);
});

test("every kind of answer is read", () => {
  const ask = (command: Record<string, unknown>) => made.answer(command, 300);
  assert.equal(liveHistory(ask({ command: "history", of: "live", window_s: 1800 }), "").t_ms.length, 300);
  assert.equal(workersHistory(ask({ command: "history", of: "workers", window_s: 1800 }), "").workers.size, 3);
  assert.equal(conversation(ask({ command: "conversation", conversation: "0-1" }), "").turns_list.length, 3);
  assert.equal(runs(ask({ command: "runs" }), "").runs.length, 2);
  assert.equal(run(ask({ command: "run", run: "run-0" }), "").modes.length, 2);
  assert.equal(level(ask({ command: "level", run: "run-0", level: 3 }), "").t_s.length, 120);
  assert.equal(comparison(ask({ command: "compare", baseline: "run-1", candidate: "run-0" }), "").levels.length, 6);
});

test("what is malformed says where", () => {
  const place = (message: unknown): string => {
    try {
      parse(message);
    } catch (error) {
      assert.ok(error instanceof Malformed);
      return error.message;
    }
    return "";
  };
  assert.equal(place({ type: 5 }), "type is not a text");
  assert.equal(place(made.hello({ window_s: "30" })), "window_s is not a number");
  assert.equal(place({ ...made.sample(1), workers: [{ ...made.worker("worker-0", 1), name: 3 }] }), "workers[0].name is not a text");
  assert.equal(place({ type: "events", events: {} }), "events is not a list");
  assert.throws(() => parseMessage("{"), Malformed);
});

test("types and words that this page does not know are no errors", () => {
  assert.equal(parse({ type: "weather", sun: true }), null);
  const message = parse({ ...made.sample(1), load: { ...made.sample(1).load, state: "dreaming" } });
  assert.ok(message?.type === "sample");
  assert.equal(message.sample.load?.state, "idle");
});

test("a worker of which little is known is read with what is not known as null", () => {
  const nothing = Object.fromEntries(Object.keys(made.worker("worker-0", 0)).map((key) => [key, null]));
  const message = parse({ ...made.sample(1), workers: [{ ...nothing, name: "vllm", state: "healthy", answers: false }] });
  assert.ok(message?.type === "sample");
  assert.equal(message.sample.workers![0]!.slots, null);
  assert.equal(message.sample.workers![0]!.slots_used, null);
});
