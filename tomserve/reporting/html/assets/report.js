"use strict";
/* Sorting and copying of tables, links to closed tables, printing. Runs when everything is there. */

(() => {
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
  const sort = (table, place, heading) => {
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
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((heading, place) => {
      const button = make("button", { type: "button", click: () => sort(table, place, heading) });
      button.append(heading.textContent, make("span", { "aria-hidden": "true" }));
      heading.replaceChildren(button);
    });
  }

  for (const button of document.querySelectorAll("button[data-table]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const status = button.parentElement.querySelector(".copied");
      try {
        await copy((await unpacked).tables[button.dataset.table][button.dataset.form]);
        status.textContent = "Copied.";
      } catch (error) {
        status.textContent = `Not copied: ${error.message}`;
      }
    });
  }

  const show = () => {
    let name = location.hash.slice(1);
    try { name = decodeURIComponent(name); } catch { /* no name of ours */ }
    const target = document.getElementById(name);
    if (target?.tagName === "DETAILS") target.open = true;
  };
  addEventListener("hashchange", show);
  show();
  const closed = () => [...document.querySelectorAll("main details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => { opened = closed(); for (const one of opened) one.open = true; });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
