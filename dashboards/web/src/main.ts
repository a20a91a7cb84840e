// SPDX-License-Identifier: Apache-2.0
/*
 * The page: what the part of the address behind # names is shown, until it names something else.
 *
 *     #/                          runs, and captures
 *     #/run/NAME                  its ranks as they are now
 *     #/run/NAME/record?ranks=    a new capture of it
 *     #/capture/ID/VIEW?...       a capture; VIEW is one of capture.ts, its choices stand behind ?
 *
 * A view gets a box, its words, and a signal that ends whatever it follows when the reader goes on.
 */
import "./style.css";
import { onUnauthorised, Problem, setToken, token } from "./api";
import { showCapture } from "./capture";
import { schemeChanged } from "./charts";
import { h, put, replace } from "./dom";
import { showRecord } from "./record";
import { showHome, showRun } from "./runs";

export interface Place {
  words: string[];
  choices: URLSearchParams;
}

export type Show = (box: HTMLElement, place: Place, signal: AbortSignal) => Promise<void>;

const main = document.getElementById("main")!;
const top_ = document.getElementById("top")!;

function placeOf(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const words: string[] = [];
  for (const word of path.split("/").filter(Boolean)) {
    try {
      words.push(decodeURIComponent(word));
    } catch {
      words.push(word); // a stray % of an address that was typed
    }
  }
  return { words, choices: new URLSearchParams(query) };
}

function viewOf(place: Place): Show | null {
  const [kind, name, more] = place.words;
  if (!kind) return showHome;
  if (kind === "run" && name) return more === "record" ? showRecord : more ? null : showRun;
  if (kind === "capture" && name) return showCapture;
  return null;
}

/* ---- the head: where we are, who we are, light or dark ------------------------------------------------------------------- */

function crumbs(place: Place): (Node | string)[] {
  const [kind, name, more] = place.words;
  const parts: (Node | string)[] = [];
  if (kind === "run" && name) {
    parts.push(" / ", h("a", { href: `#/run/${encodeURIComponent(name)}` }, `run ${name}`));
    if (more) parts.push(` / ${more}`);
  }
  if (kind === "capture" && name) parts.push(` / capture ${name}`);
  return parts;
}

function drawTop(place: Place): void {
  const scheme = h("button", {
    type: "button",
    onclick: () => {
      const root = document.documentElement;
      const isDark = root.dataset["scheme"]
        ? root.dataset["scheme"] === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset["scheme"] = isDark ? "light" : "dark";
      localStorage.setItem("rankscope.scheme", root.dataset["scheme"]);
      schemeChanged();
    },
  }, "Light / dark");
  const leave = token()
    ? h("button", {
        type: "button",
        onclick: () => {
          setToken(null);
          location.reload();
        },
      }, "Forget the token")
    : null;
  replace(
    top_,
    h("a", { class: "name", href: "#/" }, "Rankscope"),
    h("nav", { class: "path", "aria-label": "Where this is" }, crumbs(place)),
    leave,
    scheme,
  );
}

/* ---- who asks --------------------------------------------------------------------------------------------------------------- */

let asking: Promise<void> | null = null;

/* One dialog, however many requests were refused; it is closed by a token that may be tried. */
function askForToken(reason: string): Promise<void> {
  asking ??= new Promise<void>((resolve) => {
    const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", size: 48, required: true, id: "token" });
    const dialog = h("dialog", { "aria-labelledby": "who" });
    put(
      dialog,
      h("form", {
        onsubmit: (event: Event) => {
          event.preventDefault();
          setToken(input.value.trim());
          dialog.close();
          dialog.remove();
          asking = null;
          drawTop(placeOf(location.hash));
          resolve();
        },
      },
        h("h2", { id: "who" }, reason),
        h("p", {}, "A token is made on the aggregator's host: ", h("code", {}, "rankscope token new NAME"),
          " (to look), or with ", h("code", {}, "--operator"), " (to record, too). It stays in this tab."),
        h("p", {}, h("label", { for: "token" }, "Token "), input),
        h("p", {}, h("button", { class: "main", type: "submit" }, "Go on")),
      ),
    );
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    document.body.append(dialog);
    dialog.showModal();
  });
  return asking;
}

/* ---- the router --------------------------------------------------------------------------------------------------------------- */

let current: AbortController | null = null;

function show(): void {
  current?.abort();
  current = new AbortController();
  const { signal } = current;
  const place = placeOf(location.hash);
  const view = viewOf(place);
  const box = h("div");
  drawTop(place);
  document.title = ["Rankscope", ...place.words.slice(1, 2)].join(" - ");
  document.getElementById("notice")!.textContent = "";
  replace(main, box);
  if (!view) {
    replace(box, h("p", { class: "problem" }, "There is no such place here."), h("a", { href: "#/" }, "To the runs"));
    return;
  }
  view(box, place, signal).catch((error: unknown) => {
    if (signal.aborted) return;
    const why = error instanceof Problem ? error.detail : error instanceof Error ? error.message : String(error);
    put(box, h("p", { class: "problem", role: "alert" }, why));
  });
}

const saved = localStorage.getItem("rankscope.scheme");
if (saved === "dark" || saved === "light") document.documentElement.dataset["scheme"] = saved;
onUnauthorised(askForToken);
addEventListener("hashchange", show);
show();
