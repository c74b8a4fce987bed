// Files of a run, as the server writes them, and a plot's SVG as PNG, which the browser draws.
import { h } from "../dom.ts";
import { plural } from "../format.ts";

const DOCUMENTS: Record<string, string> = { "report.md": "Markdown", "report.json": "JSON", "report.html": "HTML", "levels.csv": "CSV", "plots.svg": "All plots, SVG" };
const PNG_SCALE = 2;

export function fileUrl(run: string, file: string): string {
  return `api/run/${encodeURIComponent(run)}/${encodeURIComponent(file)}`;
}

function image(url: string): Promise<HTMLImageElement> {
  return new Promise((resolve, reject) => {
    const element = new Image();
    element.addEventListener("load", () => resolve(element));
    element.addEventListener("error", () => reject(new Error("the browser cannot draw this SVG")));
    element.src = url;
  });
}

async function savePng(run: string, file: string): Promise<void> {
  const answer = await fetch(fileUrl(run, file));
  if (!answer.ok) throw new Error(`the server has no ${file}: ${answer.status}`);
  const drawing = URL.createObjectURL(new Blob([await answer.text()], { type: "image/svg+xml" }));
  try {
    const picture = await image(drawing);
    const canvas = h("canvas", { width: picture.naturalWidth * PNG_SCALE, height: picture.naturalHeight * PNG_SCALE });
    canvas.getContext("2d")!.drawImage(picture, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
    if (!blob) throw new Error("the browser cannot write PNG");
    const url = URL.createObjectURL(blob);
    h("a", { href: url, download: file.replace(/\.svg$/, ".png") }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
  } finally {
    URL.revokeObjectURL(drawing);
  }
}

/** Links to the documents of a run. */
export function documents(run: string, files: readonly string[]): HTMLElement {
  const known = files.filter((file) => file in DOCUMENTS);
  const links = known.map((file) => h("a", { href: fileUrl(run, file), download: file, class: "button" }, DOCUMENTS[file]!));
  return h("p", { class: "downloads", "aria-label": plural(known.length, "document") }, ...links);
}

/** Links to a figure's plot, if the server draws it. */
export function plotLinks(run: string, figure: string, files: readonly string[], tell: (text: string) => void): HTMLElement | null {
  const file = `${figure}.svg`;
  if (!files.includes(file)) return null;
  const png = () => void savePng(run, file).catch((error: Error) => tell(error.message));
  return h("span", { class: "plot-links" },
    h("a", { href: fileUrl(run, file), download: file, "aria-label": `${figure} as SVG` }, "SVG"), h("button", { type: "button", class: "link", "aria-label": `${figure} as PNG`, onclick: png }, "PNG"));
}
