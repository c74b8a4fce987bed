// Where the names of lines stand at the plot's right edge: each beside its line's end, moved as little as possible so that none covers another.

export interface EdgeLabel {
  text: string;
  colour: string;
  y: number;
}

/** The labels with `y` moved so that they are `distance` apart and between `top` and `bottom`, in their order from top to bottom. */
export function spread(labels: readonly EdgeLabel[], distance: number, top: number, bottom: number): EdgeLabel[] {
  const sorted = labels.map((label) => ({ ...label })).sort((a, b) => a.y - b.y);
  let limit = top;
  for (const label of sorted) {
    label.y = Math.max(label.y, limit);
    limit = label.y + distance;
  }
  limit = bottom;
  for (const label of sorted.reverse()) {
    label.y = Math.min(label.y, limit);
    limit = label.y - distance;
  }
  return sorted.reverse();
}

/** Which of the texts centred at these places, ascending, are to be drawn so that none comes closer to the next than `gap`; the last one always. */
export function apart(centres: readonly number[], widths: readonly number[], gap: number): boolean[] {
  const kept = centres.map(() => false);
  let free = Infinity;
  for (let i = centres.length - 1; i >= 0; i--) {
    kept[i] = centres[i]! + widths[i]! / 2 + gap <= free || i === centres.length - 1;
    if (kept[i]) free = centres[i]! - widths[i]! / 2;
  }
  return kept;
}

/** The text, or as much of it as has room, with an ellipsis. */
export function fitting(text: string, room: number, widthOf: (text: string) => number): string {
  if (widthOf(text) <= room) return text;
  let length = text.length - 1;
  while (length > 1 && widthOf(`${text.slice(0, length)}…`) > room) length--;
  return `${text.slice(0, length)}…`;
}

let ruler: CanvasRenderingContext2D | null = null;

/** The width of the widest of the texts, in the page's pixels. */
export function widest(texts: readonly string[], font: string): number {
  ruler ??= document.createElement("canvas").getContext("2d")!;
  ruler.font = font;
  return Math.max(0, ...texts.map((text) => ruler!.measureText(text).width));
}

/** `room`: for a text, from `x` on. */
export function drawLabels(context: CanvasRenderingContext2D, labels: readonly EdgeLabel[], x: number, room: number, font: string): void {
  context.save();
  context.font = font;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const label of labels) {
    context.fillStyle = label.colour;
    context.fillText(fitting(label.text, room, (text) => context.measureText(text).width), x, label.y);
  }
  context.restore();
}
