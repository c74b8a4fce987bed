// Renders the templates of published models (tests/golden/chat_templates) over many conversations with kvist, with Jinja as the
// transformers library sets it up (jinja_reference.py), and with @huggingface/jinja. kvist must give what Jinja gives: the same text
// or a refusal. Where the two references differ from each other (@huggingface/jinja takes "" == false for true, adds texts to
// dictionaries, has fewer filters), that is counted; where they agree, all three do.
// Usage: node chat_template_peer.mjs RENDER_TEMPLATES PYTHON
import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Template } from "@huggingface/jinja";
import { conversations } from "./conversations.mjs";

const NOW = Date.UTC(2026, 10, 21, 14, 30, 5) / 1000;  // what every side takes for the present
// @huggingface/jinja asks for the local time.
globalThis.Date = class extends Date {
  constructor(...args) { args.length === 0 ? super(2026, 10, 21, 14, 30, 5) : super(...args); }
};

const [program, python] = process.argv.slice(2);
const folder = fileURLToPath(new URL("../golden/chat_templates/", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));
const cases = [];
for (const file of readdirSync(folder).filter((name) => name.endsWith(".jinja")).sort()) {
  const template = readFileSync(folder + file, "utf8");
  for (const [name, variables] of conversations())
    cases.push({ file, name, template, now: NOW, input: { ...variables, bos_token: "<s>", eos_token: "</s>" } });
}

const input = cases.map(({ template, input, now }) => JSON.stringify({ template, input, now })).join("\n") + "\n";
function run(command, args) {
  const done = spawnSync(command, args, { input, maxBuffer: 1 << 30, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${command}: ${done.stderr}`);
  return done.stdout.trimEnd().split("\n").map((line) => JSON.parse(line));
}
const ours = run(program, []);
const jinja = run(python, [here + "jinja_reference.py"]);
const templates = new Map();
const theirs = cases.map(({ template, input }) => {
  try {
    if (!templates.has(template)) templates.set(template, new Template(template));
    return { text: templates.get(template).render(input) };
  } catch (error) {
    return { error: String(error.message) };
  }
});

const same = (a, b) => a.text === b.text && ("error" in a) === ("error" in b);
let differences = 0, disagreements = 0, refusals = 0;
cases.forEach(({ file, name }, i) => {
  if ("error" in ours[i]) ++refusals;
  if (!same(jinja[i], theirs[i])) ++disagreements;
  if (same(ours[i], jinja[i])) return;
  if (++differences > 10) return;
  console.log(`${file}, ${name}\n  kvist ${JSON.stringify(ours[i])}\n  Jinja ${JSON.stringify(jinja[i])}\n  npm   ${JSON.stringify(theirs[i])}`);
});
const models = new Set(cases.map(({ file }) => file)).size;
console.log(`${models} templates, ${cases.length} renderings (${refusals} refused), ${differences} unlike Jinja; ` +
  `@huggingface/jinja is unlike Jinja in ${disagreements} and unlike kvist in ${cases.filter((_, i) => !same(ours[i], theirs[i])).length}`);
process.exit(differences === 0 && models >= 12 && disagreements < cases.length / 10 && ours.length === cases.length ? 0 : 1);
