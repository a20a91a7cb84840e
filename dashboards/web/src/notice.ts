// SPDX-License-Identifier: Apache-2.0
/* One line over everything: what is wrong now. Empty: nothing is. */
export function notice(text: string): void {
  const box = document.getElementById("notice");
  if (box && box.textContent !== text) box.textContent = text;
}
