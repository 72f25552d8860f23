"use strict";
/* Tables that a click on a column's name sorts, and links to closed tables; the workbench uses it as well. */

const sortTables = (root) => {
  const number = (text) => {
    const trimmed = text.trim();
    if (trimmed === "–" || trimmed === "") return null;
    if (trimmed === "∞") return Infinity;
    if (trimmed === "-∞") return -Infinity;
    const value = Number(trimmed);
    return Number.isNaN(value) ? trimmed : value;
  };
  const order = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is undefined stays last
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const fill = (table) => {
    const rest = table.tBodies[0].querySelector("template");
    if (!rest) return;
    rest.replaceWith(rest.content);
    table.closest("details").querySelector(".rest").remove();
  };
  const sort = (table, place, heading) => {
    fill(table);
    const down = heading.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [number(row.cells[place].textContent), row]);
    rows.sort(([a], [b]) => (down && a !== null && b !== null ? -order(a, b) : order(a, b)));
    body.append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) {
      other.removeAttribute("aria-sort");
      other.querySelector("[aria-hidden]").textContent = "";
    }
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    heading.querySelector("[aria-hidden]").textContent = down ? " ▼" : " ▲";
  };
  for (const table of root.querySelectorAll("table.sortable:not([data-sorts])")) {
    table.dataset.sorts = "";
    const button = table.closest("details")?.querySelector(".rest button");
    if (button) button.hidden = false;
    button?.addEventListener("click", () => fill(table));
    [...table.tHead.rows[0].cells].forEach((heading, place) => {
      const button = document.createElement("button");
      const sign = document.createElement("span");
      button.type = "button";
      sign.setAttribute("aria-hidden", "true");
      button.append(heading.textContent, sign);
      button.addEventListener("click", () => sort(table, place, heading));
      heading.replaceChildren(button);
    });
  }
};

const openLinked = () => {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* no name of ours */ }
  const target = document.getElementById(name);
  if (target?.tagName === "DETAILS") target.open = true;
};
addEventListener("hashchange", openLinked);
