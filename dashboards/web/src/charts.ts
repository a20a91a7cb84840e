// SPDX-License-Identifier: Apache-2.0
/*
 * Apache ECharts, as much of it as the page and report.html need (views/clock.ts, which is in the page alone, adds what is its own), in the page's colours (Paul Tol's "bright": told apart by the colour-blind,
 * too). Charts redraw when their box or the colour scheme changes. Tooltips are drawn, not HTML: the page allows no inline style.
 */
import { BarChart, HeatmapChart, SankeyChart } from "echarts/charts";
import {
  DataZoomComponent,
  GridComponent,
  LegendComponent,
  TooltipComponent,
  VisualMapComponent,
} from "echarts/components";
import * as echarts from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";

echarts.use([
  BarChart, HeatmapChart, SankeyChart, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent, VisualMapComponent,
  CanvasRenderer,
]);

export type Option = echarts.EChartsCoreOption;

export const COLOURS = {
  computing: "#4477aa",
  communication: "#ee6677",
  wait: "#aa3377",
  bubble: "#66ccee",
  memory: "#ccbb44",
  free: "#9aa2aa",
  good: "#228833",
} as const;

/* A colour of style.css as the scheme has it now. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/* From little to much, for one measure. */
export function scale(): string[] {
  return [colour("h0"), colour("h1"), colour("h2"), colour("h3"), colour("h4"), colour("h5")];
}

const schemeListeners = new Set<() => void>();
export function onScheme(listener: () => void): () => void {
  schemeListeners.add(listener);
  return () => schemeListeners.delete(listener);
}
export function schemeChanged(): void {
  for (const listener of schemeListeners) listener();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", schemeChanged);

/* A chart in a box of its own; `make` is asked again when colours change. What it shows is said by `name` to who cannot see it. */
export function chart(name: string, height: number, make: () => Option, onClick?: (params: echarts.ECElementEvent) => void): HTMLElement {
  const box = document.createElement("div");
  box.className = "chart";
  box.style.height = `${height}px`;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", name);
  let mine: echarts.EChartsType | null = null;
  const draw = () => {
    const text = { color: colour("ink"), fontFamily: "system-ui, sans-serif" };
    mine?.setOption({ textStyle: text, animation: false, ...make() }, { notMerge: true });
  };
  let stop: (() => void) | null = null;
  const observer = new ResizeObserver(() => {
    if (!box.isConnected) {
      observer.disconnect();
      stop?.();
      mine?.dispose();
      mine = null;
      return;
    }
    if (!box.clientWidth) return;
    if (mine) mine.resize();
    else {
      mine = echarts.init(box, null, { renderer: "canvas" });
      if (onClick) mine.on("click", onClick);
      draw();
      stop = onScheme(draw);
    }
  });
  observer.observe(box);
  return box;
}

/* What axes, legends and tooltips have in common. */
export function axis(name: string, more: object = {}): object {
  return {
    name,
    nameLocation: "middle",
    nameGap: 28,
    nameTextStyle: { color: colour("dim") },
    axisLabel: { color: colour("dim") },
    axisLine: { lineStyle: { color: colour("line") } },
    splitLine: { lineStyle: { color: colour("line") } },
    ...more,
  };
}

export function tooltip(more: object = {}): object {
  return {
    renderMode: "richText",
    confine: true,
    backgroundColor: colour("soft"),
    borderColor: colour("line"),
    textStyle: { color: colour("ink"), fontSize: 13 },
    ...more,
  };
}

export function legend(more: object = {}): object {
  return { top: 0, textStyle: { color: colour("ink") }, inactiveColor: colour("line"), ...more };
}
