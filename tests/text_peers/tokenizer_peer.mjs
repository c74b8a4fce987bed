// Compares kvist's tokenizer with @huggingface/tokenizers on one tokenizer.json: the same ids for plain text (no added
// token recognised), for text with added tokens, and with what the post-processor adds; the same text back, at once and
// streamed. Usage: node tokenizer_peer.mjs ENCODE_LINES TOKENIZER_JSON [SEED]
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { Tokenizer } from "@huggingface/tokenizers";
import { PICKED, StringMaker } from "./strings.mjs";

const RANDOM_STRINGS = 2500;
const RANDOM_ID_LISTS = 1000;
const RANDOM_PROMPTS = 1000;

const [program, path, seed_text] = process.argv.slice(2);
const seed = Number(seed_text ?? 20261121);
const json = JSON.parse(readFileSync(path, "utf8"));
const peer = new Tokenizer(json, {});
const plain_peer = new Tokenizer({ ...json, added_tokens: [] }, {});

const maker = new StringMaker(seed, json.added_tokens.map((t) => t.content));
let strings = [...PICKED];
for (let i = 0; i < RANDOM_STRINGS; ++i) strings.push(maker.next());

// Tokenizers take UTF-8, in which lone surrogates have no form: all encoders of the web write U+FFFD for one, and so do both
// sides here. Given the surrogate itself, the peer takes it for a character that is in no vocabulary and only then writes it
// as UTF-8: right by chance for vocabularies of bytes, which is held to below, and wrong for those of characters with byte
// fallback that do have U+FFFD.
const byte_level = JSON.stringify(json.pre_tokenizer)?.includes("ByteLevel") ?? false;
const raw_strings = strings;
strings = strings.map((s) => s.toWellFormed());

// Ids as a model may generate them, unlike those of a text: incomplete characters, special tokens anywhere.
const known = new Set([...Object.values(json.model.vocab), ...json.added_tokens.map((t) => t.id)]);
const most_id = [...known].reduce((a, b) => Math.max(a, b));
let id_lists = [];
for (let i = 0; i < RANDOM_ID_LISTS; ++i) {
  const ids = [];
  // Half of them among the first ids, where the single bytes are.
  const most = i % 2 === 0 ? most_id : Math.min(most_id, 300);
  for (let n = 1 + maker.below(30); n > 0; --n) ids.push(maker.below(most + 1));
  id_lists.push(ids.filter((id) => known.has(id)));
}

id_lists = id_lists.filter((ids) => ids.length > 0);

// Prompts of a template that places special tokens, with whatever users write between them. A token that a user spells out is
// text: between the template's tokens the peer is asked without any added tokens.
const prompts = [];
for (let i = 0; i < RANDOM_PROMPTS; ++i) {
  const prompt = { text: "", from_messages: [], expected: [] };
  for (let turns = 1 + maker.below(5); turns > 0; --turns) {
    const token = maker.pick(json.added_tokens);
    prompt.text += token.content;
    prompt.expected.push(token.id);
    const message = (maker.below(3) === 0 ? maker.lookalike() : maker.next()).toWellFormed();
    const begin = Buffer.byteLength(prompt.text);
    prompt.text += message;
    if (message.length > 0) prompt.from_messages.push([begin, Buffer.byteLength(prompt.text)]);
    prompt.expected.push(...plain_peer.encode(message, { add_special_tokens: false }).ids);
  }
  prompts.push(prompt);
}

const input = [...strings, ...id_lists, ...prompts.map(({ expected, ...prompt }) => prompt)].map((s) => JSON.stringify(s)).join("\n") + "\n";
const run = spawnSync(program, [path], { input, maxBuffer: 1 << 30, encoding: "utf8" });
if (run.status !== 0) {
  console.error(run.stderr);
  process.exit(1);
}
const results = run.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));

let failures = 0;
function compare(what, text, ours, theirs) {
  if (JSON.stringify(ours) === JSON.stringify(theirs)) return;
  if (++failures > 20) return;
  console.log(`${what} of ${JSON.stringify(text).slice(0, 200)}\n  kvist ${JSON.stringify(ours).slice(0, 300)}\n  peer  ${JSON.stringify(theirs).slice(0, 300)}`);
}

let tokens = 0;
strings.forEach((text, i) => {
  const ours = results[i];
  const options = { add_special_tokens: false };
  const ids = peer.encode(text, options).ids;
  compare("plain ids", text, ours.plain, plain_peer.encode(text, options).ids);
  compare("ids", text, ours.prompt, ids);
  if (byte_level) compare("ids of lone surrogates", raw_strings[i], ours.prompt, peer.encode(raw_strings[i], options).ids);
  compare("ids with special tokens", text, ours.completion, peer.encode(text).ids);
  const decoded = ids.length > 0 ? peer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false }) : "";
  compare("text", text, ours.text, decoded);
  compare("streamed text", text, ours.streamed, decoded);
  tokens += ids.length;
});
id_lists.forEach((ids, i) => {
  const ours = results[strings.length + i];
  const decoded = peer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });
  compare("streamed text of ids", ids, ours.streamed, ours.text);
  compare("text of ids", ids, ours.text, decoded);
});
prompts.forEach((prompt, i) => {
  compare("ids of the prompt", prompt.text, results[strings.length + id_lists.length + i].prompt, prompt.expected);
});
const broken = raw_strings.filter((s) => !s.isWellFormed()).length;
console.log(`seed ${seed}, ${strings.length} strings (${broken} with lone surrogates), ${tokens} tokens, ${id_lists.length} lists of ids, ${prompts.length} prompts, ${failures} differences`);
process.exit(failures === 0 && results.length === strings.length + id_lists.length + prompts.length ? 0 : 1);
