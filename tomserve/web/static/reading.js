"use strict";
// Tables of results, also those that come later: sorting and links by sorting.js, copying as LaTeX or CSV.
(() => {
  const copied = async (button) => {
    const status = button.parentElement.querySelector(".copied");
    const tables = button.closest("[data-tables]").dataset.tables;
    try {
      const answer = await fetch(`${tables}${encodeURIComponent(button.dataset.table)}&form=${button.dataset.form}`);
      if (!answer.ok) throw new Error(`the workbench answered ${answer.status}`);
      await navigator.clipboard.writeText(await answer.text());
      status.textContent = "Copied.";
    } catch (error) {
      status.textContent = `Not copied: ${error.message}. Use the downloads below.`;
    }
  };
  const prepare = (root) => {
    sortTables(root);
    for (const button of root.querySelectorAll("[data-tables] button[data-table][hidden]")) {
      button.hidden = false;
      button.addEventListener("click", () => copied(button));
    }
  };
  prepare(document);
  document.body.addEventListener("htmx:load", (event) => { prepare(event.detail.elt); openLinked(); });
  openLinked();
})();
