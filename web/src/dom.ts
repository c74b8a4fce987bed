// Elements are built here and nowhere from markup: whatever a worker, a model or a client wrote becomes a text node.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | EventListener | undefined>;

function assign(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.replace(/^on/, ""), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(element: Element, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child);
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  assign(element, attributes);
  append(element, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(element, attributes);
  append(element, children);
  return element;
}

/** Sets a text only if it changed, so that a screen reader's live region and a user's selection are left alone. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Sets, changes or (with undefined) removes an attribute, only if it differs. */
export function setAttribute(element: Element, name: string, value: string | undefined): void {
  if (value === undefined) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

export function replaceChildren(element: Element, ...children: Child[]): void {
  element.replaceChildren();
  append(element, children);
}

/** Keeps one element per key, in the order of the items; elements that stay keep their focus and scroll position. */
export class KeyedList<Item, View extends { readonly element: Element }> {
  readonly #views = new Map<string, View>();

  constructor(
    private readonly parent: Element,
    private readonly keyOf: (item: Item) => string,
    private readonly create: (item: Item) => View,
    private readonly update: (view: View, item: Item, index: number) => void,
  ) {}

  show(items: readonly Item[]): void {
    const keys = new Set(items.map(this.keyOf));
    for (const [key, view] of this.#views) {
      if (keys.has(key)) continue;
      view.element.remove();
      this.#views.delete(key);
    }
    items.forEach((item, index) => {
      const key = this.keyOf(item);
      let view = this.#views.get(key);
      if (!view) {
        view = this.create(item);
        this.#views.set(key, view);
      }
      const there = this.parent.children[index] ?? null;
      if (there !== view.element) this.parent.insertBefore(view.element, there);
      this.update(view, item, index);
    });
  }

  get size(): number {
    return this.#views.size;
  }
}
