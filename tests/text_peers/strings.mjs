// Strings on which tokenizers are likely to disagree: hand-picked ones and seeded random ones.

/** A stream of numbers in [0, 1) from a seed (mulberry32). */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// Code points by script; ranges that have been assigned for long, since the libraries know different versions of Unicode.
const SCRIPTS = {
  ascii: [[0x20, 0x7e]],
  latin: [[0x41, 0x5a], [0x61, 0x7a], [0xc0, 0x24f]],
  greek: [[0x391, 0x3a1], [0x3a3, 0x3ce]],
  cyrillic: [[0x400, 0x45f]],
  armenian: [[0x531, 0x556], [0x561, 0x586]],
  hebrew: [[0x5d0, 0x5ea], [0x5b0, 0x5bc]],
  arabic: [[0x621, 0x63a], [0x641, 0x652], [0x660, 0x669]],
  devanagari: [[0x901, 0x903], [0x905, 0x939], [0x93c, 0x94d], [0x966, 0x96f]],
  bengali: [[0x985, 0x98c], [0x993, 0x9a8], [0x9be, 0x9c4], [0x9e6, 0x9ef]],
  tamil: [[0xb85, 0xb8a], [0xbae, 0xbb5], [0xbbe, 0xbc2]],
  thai: [[0xe01, 0xe3a], [0xe40, 0xe59]],
  tibetan: [[0xf40, 0xf47], [0xf71, 0xf7c]],
  georgian: [[0x10d0, 0x10f0]],
  ethiopic: [[0x1200, 0x1248]],
  hangul: [[0xac00, 0xd7a3]],
  jamo: [[0x1100, 0x1112], [0x1161, 0x1175], [0x11a8, 0x11c2]],
  kana: [[0x3041, 0x3096], [0x30a1, 0x30fa], [0xff66, 0xff9d]],
  han: [[0x4e00, 0x9fa5], [0x3400, 0x4db5]],
  astral_han: [[0x20000, 0x2a6d6]],
  compatibility_han: [[0xf900, 0xfa2d]],
  marks: [[0x300, 0x36f]],
  digits: [[0x30, 0x39], [0x660, 0x669], [0x966, 0x96f], [0xff10, 0xff19], [0xb2, 0xb3], [0x2150, 0x2182], [0x2460, 0x249b]],
  symbols: [[0x2190, 0x21ff], [0x2200, 0x22ff], [0x20a0, 0x20bf], [0x2500, 0x257f]],
  punctuation: [[0x21, 0x2f], [0x3a, 0x40], [0x5b, 0x60], [0x7b, 0x7e], [0x2010, 0x2027], [0x3001, 0x3011]],
  spaces: [[0x20, 0x20], [0x9, 0xd], [0x85, 0x85], [0xa0, 0xa0], [0x2000, 0x200a], [0x2028, 0x2029], [0x202f, 0x202f], [0x3000, 0x3000]],
  invisible: [[0x200b, 0x200f], [0xfeff, 0xfeff], [0xad, 0xad], [0x2060, 0x2064], [0x180e, 0x180e], [0xfe0e, 0xfe0f]],
  controls: [[0x0, 0x1f], [0x7f, 0x9f]],
  emoji: [[0x1f300, 0x1f5ff], [0x1f600, 0x1f64f], [0x1f680, 0x1f6c5], [0x1f1e6, 0x1f1ff], [0x2600, 0x26ff]],
  mathematical: [[0x1d400, 0x1d454], [0x1d7ce, 0x1d7ff]],
  private_use: [[0xe000, 0xe010], [0xf0000, 0xf0010]],
  surrogates: [[0xd800, 0xdfff]],
};

const EMOJI = ["👩‍👩‍👧‍👦", "🏳️‍🌈", "👨🏽‍💻", "🇸🇪🇩🇪", "1️⃣", "❤️‍🔥", "🧑‍🚀", "👍🏿", "☺️", "🏴󠁧󠁢󠁥󠁮󠁧󠁿"];

const CODE = [
  "def f(x):\n    return x**2  # square\n\n\nif __name__ == '__main__':\n\tprint(f(3))\n",
  "for (int i = 0; i < n; ++i) {\r\n  a[i] += b[i] * c;\r\n}\r\n",
  "SELECT * FROM t WHERE a >= 10 AND b != 'it''s' ORDER BY 1;",
  "<div class=\"a b\"><!-- x --><p>&nbsp;Hi&#39;s</p></div>",
  "{\"a\": [1, 2.5e-10, null, true], \"ключ\": \"\\u00e9\"}",
  "#include <vector>\ntemplate <class T> using V = std::vector<T>;\n",
  "x=1;y=22;z=333;w=4444;v=55555;u=666666;t=7777777",
  "$ ls -la | grep '^d' && echo \"$HOME\" > /dev/null 2>&1",
  "https://example.org/a/b?c=d&e=%20f#g", "0xDEADBEEF 1_000_000 3.14159 1e-9 -0.0",
  "\\frac{a}{b} \\sum_{i=0}^{n} x_i^2", "|a|b|\n|-|-|\n|1|2|\n", "~~~~ ---- ==== #### ****",
];

export const PICKED = [
  "", " ", "  ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", " \n \n ", "a", " a", "a ", "  a  b   c    ", "a\n\n\nb", "a \n b",
  "Hello, world!", "Hello world", " Hello", "I'm you're they've we'll he'd she's it's don't", "I'M YOU'RE THEY'VE WE'LL HE'D SHE'S DON'T",
  "'s't're've'm'll'd", "'S'T'RE'VE'M'LL'D", "x's", "x'sy", "''s", "d'l'm", "1234567890", "12 345 6789", "a1b22c333", "１２３４", "٣٤٥",
  "²³¹", "½¼¾", "Ⅷ", "①②③", "é", "e\u0301", "\u1e9b\u0323", "Å\u212b\u0041\u030a", "ﬁ ﬂ", "한글", "\u1112\u1161\u11ab", "ạ̈", "q\u0307\u0323", "q\u0323\u0307",
  "日本語のテキスト", "中文，标点。", "ไทยไม่มีวรรค", "हिन्दी में", "العربية نص", "עברית", "Ελληνικά", "Русский текст", "ქართული", "አማርኛ", "தமிழ்",
  "\u00a0", "\u2003\u2003x", "\u3000全角", "a\u0085b", "a\u2028b\u2029c", "\u200b\u200bz", "\ufeffbom", "\u180emongolian", "a\u180e b", "\u00ad",
  "\0", "a\0b", "\x1b[31mred\x1b[0m", "\x7f", "\u0080\u009f", "\ud800", "\udc00x", "a\ud83d", "\ud83d\ud83d\ude00", "\ufffd\ufffd", "\uffff", "\u{10ffff}",
  "▁", "▁▁", " ▁", "▁ a", "a▁b", "Ġ", "ĠĠĊ", "Ċ", "<0x0A>", "<0x41>", "<0xE2><0x82><0xAC>", "<unk>", "<pad>", "<s>", "</s>", "<s></s><s>", " <s> a </s> ",
  "<|begin_of_text|>", "<|eot_id|>", "<|im_start|>user\nHi<|im_end|>\n", "<|im_start|", "|im_end|>", "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
  "<|begin_of_text|><|begin_of_text|>", "<|Begin_of_text|>", "< |eot_id|>", "<|eot_id|", "<<|eot_id|>>", "<think>a</think>", "<tool_call>\n{}\n</tool_call>", "<|endoftext|>",
  "<|reserved_special_token_1|><|reserved_special_token_10|><|reserved_special_token_100|>", "<|vision_start|><|image_pad|><|vision_end|>",
  "   leading", "trailing   ", "tabs\t\tand\t spaces", "\n\n\n\n\n", "\r\r\n\n\r", " \t \t \n\t ", "...", "?!?!", "a,b;c:d", "«quoted»", "“smart” ‘quotes’ don’t", "ſ'ſ K",
  ...EMOJI, EMOJI.join(""), EMOJI.join(" "), ...CODE, CODE.join("\n\n"),
  "a".repeat(3000), "ab".repeat(2000), " ".repeat(1000), "\n".repeat(1000), " ".repeat(500) + "x", "1".repeat(2000), "!".repeat(1500), "あ".repeat(500), "🙂".repeat(300),
  "Donaudampfschifffahrtsgesellschaftskapitänsmütze".repeat(20), "x ".repeat(1000), "-".repeat(333) + "\n", "\t".repeat(777), "▁".repeat(100), "<".repeat(700), "<|".repeat(300), "é".repeat(700),
];

export class StringMaker {
  constructor(seed, added) {
    this.random = random(seed);
    this.added = added;
  }
  below(n) {
    return Math.floor(this.random() * n);
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  run(most) {
    const ranges = SCRIPTS[this.pick(Object.keys(SCRIPTS))];
    let out = "";
    for (let n = 1 + this.below(most); n > 0; --n) {
      const [low, high] = this.pick(ranges);
      out += String.fromCodePoint(low + this.below(high - low + 1));
      if (this.random() < 0.08) out += this.pick([" ", "\n", "  ", "'", "1", "\u0301", "a"]);
    }
    return out;
  }
  lookalike() {
    const token = this.pick(this.added);
    const at = this.below(token.length);
    switch (this.below(6)) {
      case 0: return token;
      case 1: return token.slice(0, at);
      case 2: return token.slice(at);
      case 3: return token.slice(0, at) + " " + token.slice(at);
      case 4: return token + token.slice(0, at) + token;
      default: return " " + token + "\n";
    }
  }
  word() {
    let out = "";
    for (let n = 1 + this.below(this.random() < 0.02 ? 400 : 12); n > 0; --n) out += String.fromCharCode(97 + this.below(26));
    return this.random() < 0.2 ? out[0].toUpperCase() + out.slice(1) : out;
  }
  next() {
    let out = "";
    for (let parts = 1 + this.below(8); parts > 0; --parts) {
      const kind = this.random();
      if (kind < 0.4) out += this.run(this.random() < 0.05 ? 200 : 12);
      else if (kind < 0.6) out += this.word() + this.pick(["", " ", ", ", ".\n", "'s ", "  "]);
      else if (kind < 0.7) out += this.lookalike();
      else if (kind < 0.8) out += this.pick(PICKED).slice(0, 200);
      else if (kind < 0.9) out += this.pick([" ", "\n", "\t", "\r\n", "\u00a0"]).repeat(1 + this.below(6));
      else out += this.pick(EMOJI) + this.pick(CODE).slice(0, 1 + this.below(40));
    }
    return out;
  }
}
