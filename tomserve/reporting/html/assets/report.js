"use strict";
/* Copying of tables, printing; after sorting.js, and when everything is there. */

(() => {
  sortTables(document);

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

  openLinked();
  const closed = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => { opened = closed(); for (const one of opened) one.open = true; });
  addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
})();
