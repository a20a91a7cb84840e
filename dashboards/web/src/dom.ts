// SPDX-License-Identifier: Apache-2.0
/* Elements. Everything that came from outside goes in as text: there is no HTML of anybody's in the page. */

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | ((event: never) => void) | null | undefined;

/* h("button", {class: "big", onclick: f}, "Text"): attributes, and functions as listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  name: K,
  attributes: Record<string, Value> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value as EventListener);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  put(element, ...children);
  return element;
}

export function put(element: Element, ...children: (Child | Child[])[]): void {
  for (const child of children.flat())
    if (child !== null && child !== undefined && child !== false)
      element.append(child instanceof Node ? child : String(child));
}

export function replace(element: Element, ...children: (Child | Child[])[]): void {
  element.replaceChildren();
  put(element, ...children);
}

export interface Column<R> {
  title: string;
  cell: (row: R) => Child;
  sort?: (row: R) => number | string;
  isNumber?: boolean;
}

/* A table that sorts by the column whose title is pressed; long ones show their first rows, say so, and more when asked. */
export function table<R>(columns: Column<R>[], rows: R[], caption: string, most = 200): HTMLElement {
  let shown = most;
  let by = -1;
  let isDown = true;
  const body = h("tbody");
  const heads: HTMLTableCellElement[] = [];
  const note = h("p", { class: "dim" });
  const fill = () => {
    const sort = columns[by]?.sort;
    const sorted = sort
      ? [...rows].sort((a, b) => {
          const x = sort(a);
          const y = sort(b);
          return (x < y ? -1 : x > y ? 1 : 0) * (isDown ? -1 : 1);
        })
      : rows;
    replace(
      body,
      sorted.slice(0, shown).map((row) =>
        h("tr", {}, columns.map((column) => h("td", column.isNumber ? { class: "r" } : {}, column.cell(row)))),
      ),
    );
    if (rows.length > shown)
      replace(note, `${shown} of ${rows.length} rows are shown. `, h("button", {
        type: "button",
        onclick: () => {
          shown = Math.max(shown * 8, 500);
          fill();
        },
      }, "Show more"));
    else replace(note);
    heads.forEach((head, i) => head.setAttribute("aria-sort", i === by ? (isDown ? "descending" : "ascending") : "none"));
  };
  const head = h("tr");
  columns.forEach((column, i) => {
    const cell = h("th", { scope: "col", class: column.isNumber ? "r" : null });
    if (column.sort)
      cell.append(
        h("button", {
          class: "sort",
          type: "button",
          onclick: () => {
            isDown = by === i ? !isDown : true;
            by = i;
            fill();
          },
        }, column.title),
      );
    else cell.append(column.title);
    heads.push(cell);
    head.append(cell);
  });
  fill();
  return h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, head), body), note);
}

/* Runs `work`; what goes wrong is shown in `box` instead of its result. */
export async function fillIn(box: Element, work: () => Promise<Node | Node[]>): Promise<void> {
  replace(box, h("p", { class: "dim", role: "status" }, "Reading ..."));
  try {
    replace(box, await work());
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    replace(box, h("p", { class: "problem", role: "alert" }, error instanceof Error ? error.message : String(error)));
  }
}
