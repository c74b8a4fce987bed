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

export function drawLabels(context: CanvasRenderingContext2D, labels: readonly EdgeLabel[], x: number, font: string): void {
  context.save();
  context.font = font;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const label of labels) {
    context.fillStyle = label.colour;
    context.fillText(label.text, x, label.y);
  }
  context.restore();
}
