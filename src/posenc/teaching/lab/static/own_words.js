// The attention layer of the stage "shuffle", for the reader's own sentence; it equals the library's to 1e-5.
const COMPUTED = ["nope", "sinusoidal", "rotary", "alibi"];
const channels = (count, make) => Array.from({ length: count }, (_, i) => make(i));

// A word's vector, from its hash.
function vectorOf(word) {
  let code = 0;
  for (const letter of word) code = (31 * code + letter.codePointAt(0)) % 65521;
  return channels(8, (i) => Math.SQRT2 * Math.sin(code * (i + 1) ** 2));
}

const product = (x, part) => channels(8, (j) => x.reduce((sum, value, i) => sum + (value * Math.sin((121 + 64 * part + 8 * i + j) ** 2)) / 2, 0));
const sine = (p, i) => [Math.sin, Math.cos][i % 2](p * 10 ** -(i >> 1));

// RoPE on both heads of four channels, with half pairs.
const rotated = (x, p) => x.map((value, i) => {
  const [angle, side] = [p * 100 ** -(i % 2), i % 4 < 2 ? -1 : 1];
  return value * Math.cos(angle) + side * x[i - 2 * side] * Math.sin(angle);
});

// The outputs of attention with one of the encodings above, one row per word.
export function attended(words, encoding, causal) {
  const x = words.map((word, p) => vectorOf(word).map((value, i) => value + (encoding === "sinusoidal" ? sine(p, i) : 0)));
  const placed = (part) => x.map((row, p) => (encoding === "rotary" ? rotated(product(row, part), p) : product(row, part)));
  const [q, k, v] = [placed(0), placed(1), x.map((row) => product(row, 2))];
  return words.map((_, m) => [0, 4].flatMap((first) => {
    const slope = encoding === "alibi" ? 2 ** -(4 + first) : 0;
    const shares = k.map((row, n) => (causal && n > m ? 0 : Math.exp(channels(4, (i) => q[m][first + i] * row[first + i]).reduce((a, b) => a + b) / 2 - slope * Math.abs(m - n))));
    const whole = shares.reduce((a, b) => a + b);
    return channels(4, (j) => shares.reduce((sum, share, n) => sum + share * v[n][first + j], 0) / whole);
  }));
}

// The view of this state, made from a saved view of the same layer with other words.
export function ownWords(content, state) {
  const encoding = state.get("remove") === "0" ? state.get("encoding") ?? "rotary" : "nope";
  const words = state.get("sentence")?.split(" ") ?? ["dog", "bites", "man"];
  if (!COMPUTED.includes(encoding)) throw new Error("With your own words, this page can compute only NoPE, sinusoidal, RoPE and ALiBi; posenc lab computes all encodings.");
  if (words.length < 2 || words.length > 8) throw new Error(`The sentence has ${words.length} word${words.length > 1 ? "s" : ""}; write 2 to 8.`);
  const order = (state.get("order") ?? "2-1-0").split("-").map(Number);
  const moved = order.map((i) => words[i]);
  const outputs = [words, moved].map((each) => attended(each, encoding, state.get("causal") === "1"));
  const off = outputs[1].flatMap((row, t) => row.map((value, i) => Math.abs(value - outputs[0][order[t]][i])));
  const changed = `${off.filter((each) => each >= 1e-5).length} of ${off.length}`;
  const largest = Math.max(...off);
  const end = Math.max(...outputs.flat(2).map(Math.abs));
  const still = order.every((at, t) => at === t);
  const text = (value) => value.toFixed(2).replace(/^-(0\.00)$/, "$1").replace("-", "−");
  const alike = [...state].filter(([name]) => !["sentence", "order"].includes(name)).map((pair) => pair.join("="));
  const base = content[alike.join("&")] ?? content[""];
  const panels = base.panels.slice(0, still ? 1 : 2).map((panel, i) => ({
    ...panel,
    shape: [words.length, 8],
    codes: btoa(String.fromCharCode(...outputs[i].flat().map((value) => Math.round(127 * (1 + value / end))))),
    keys: [words, moved][i],
    texts: outputs[i].map((row) => row.map(text)),
    legend: [-end, 0, end].map((value, j) => [j / 2, String(Number(value.toPrecision(3))).replace("-", "−")]),
    probe: undefined,
  }));
  const follow = largest < 1e-5;
  const said = follow ? ["Nothing changes: each output moves with its word", "the same vectors, moved"] : [`Order counts: ${changed} output values change`, "changed"];
  const [title, status] = still ? ["One output vector for each word", "nothing moved"] : said;
  const told = [["output values changed", changed], ["largest difference", follow ? "< 10⁻⁵" : largest.toFixed(3)], ["status", status]];
  const lines = `words, order = ${JSON.stringify(words)}, ${JSON.stringify(order)}`;
  return { title, panels, readouts: told.map(([name, value]) => ({ name, text: value })), python: base.python.replace(/^words, order = .*$/m, lines) };
}
