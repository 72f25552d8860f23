"use strict";
// Tables of results: sorting by a click on a column's name, copying as LaTeX or CSV, and links to closed tables.
(() => {
  const value = (text) => {
    const trimmed = text.trim();
    if (trimmed === "–" || trimmed === "") return null;
    if (trimmed === "∞") return Infinity;
    if (trimmed === "-∞") return -Infinity;
    const number = Number(trimmed);
    return Number.isNaN(number) ? trimmed : number;
  };
  const order = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1; // what is undefined stays last
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };
  const sort = (table, place, heading) => {
    const down = heading.getAttribute("aria-sort") === "ascending";
    const rows = [...table.tBodies[0].rows].map((row) => [value(row.cells[place].textContent), row]);
    rows.sort(([a], [b]) => (down && a !== null && b !== null ? -order(a, b) : order(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
    for (const other of table.tHead.rows[0].cells) {
      other.removeAttribute("aria-sort");
      other.querySelector("[aria-hidden]").textContent = "";
    }
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    heading.querySelector("[aria-hidden]").textContent = down ? " ▼" : " ▲";
  };
  const copied = async (button) => {
    const status = button.parentElement.querySelector(".copied");
    const tables = button.closest("[data-tables]").dataset.tables;
    try {
      const answer = await fetch(`${tables}${encodeURIComponent(button.dataset.table)}&form=${button.dataset.form}`);
      if (!answer.ok) throw new Error(`the workbench answered ${answer.status}`);
      await navigator.clipboard.writeText(await answer.text());
      status.textContent = "Copied.";
    } catch (error) {
      status.textContent = `Not copied: ${error.message}. The downloads below hold the same.`;
    }
  };
  const prepare = (root) => {
    for (const table of root.querySelectorAll("table.sortable:not([data-sorts])")) {
      table.dataset.sorts = "";
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
    for (const button of root.querySelectorAll("[data-tables] button[data-table][hidden]")) {
      button.hidden = false;
      button.addEventListener("click", () => copied(button));
    }
  };
  const show = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* no name of ours */ }
    const target = document.getElementById(name);
    if (target?.tagName === "DETAILS") target.open = true;
  };
  prepare(document);
  document.body.addEventListener("htmx:load", (event) => { prepare(event.detail.elt); show(); });
  addEventListener("hashchange", show);
  show();
})();
