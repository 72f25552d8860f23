"use strict";
// What neither HTML nor htmx can do: questions before something is ended, copying, keys in lists, the time of whoever
// looks, and a word when the connection is lost. Every page works without it.
(() => {
  const typing = (node) => node.closest("input, textarea, select, [contenteditable]");
  const within = (root, selector) => [...(root.matches?.(selector) ? [root] : []), ...root.querySelectorAll(selector)];

  // Times stand in UTC; here they are written in the time of this place, and UTC stays in the tooltip.
  const two = (number) => String(number).padStart(2, "0");
  function local(root) {
    for (const node of within(root, "time[datetime]:not([data-local])")) {
      const moment = new Date(node.getAttribute("datetime"));
      node.dataset.local = "";
      if (Number.isNaN(moment.getTime())) continue;
      const day = `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}`;
      node.textContent = `${day} ${two(moment.getHours())}:${two(moment.getMinutes())}`;
    }
  }
  // What only works with scripts is hidden until there are scripts.
  function unhide(root) {
    for (const node of within(root, "[data-copy][hidden], [data-keys][hidden], [data-scripted][hidden]")) node.hidden = false;
  }
  const prepare = (root) => { local(root); unhide(root); };
  prepare(document.body);
  document.body.addEventListener("htmx:load", (event) => prepare(event.detail.elt));

  // A button with data-confirm asks before its form is sent.
  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset?.confirm;
    if (question && !window.confirm(question)) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);

  // A button with data-copy copies the text of the element it names, one with data-from that of an address.
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button[data-copy]");
    if (button) {
      const from = button.dataset.copy ? document.querySelector(button.dataset.copy) : null;
      const before = button.dataset.word ?? (button.dataset.word = button.textContent);
      try {
        const text = button.dataset.from ? await fetch(button.dataset.from).then((answer) => answer.ok ? answer.text() : Promise.reject(new Error(answer.status))) : from?.value ?? from?.textContent ?? "";
        await navigator.clipboard.writeText(text);
        button.textContent = "Copied";
      } catch {
        if (from) { window.getSelection().selectAllChildren(from); }
        button.textContent = from ? "Selected: press Ctrl-C" : "Not copied";
      }
      setTimeout(() => { button.textContent = before; }, 2000);
    }
    if (event.target.closest?.("[data-keys]")) document.getElementById("keys").showModal();
  });

  // j and k go through the rows of the list that holds the focus, or of the first one; Enter opens a row's link.
  function rows() {
    const list = document.activeElement.closest?.("[data-list]") ?? document.querySelector("[data-list]");
    return list ? [...list.querySelectorAll("tbody > tr, li")].filter((row) => row.querySelector("a[href]")) : [];
  }
  let here = null;
  function go(step) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row === here || row.contains(document.activeElement));
    here?.classList.remove("here");
    here = all[at < 0 ? 0 : Math.min(Math.max(at + step, 0), all.length - 1)];
    here.classList.add("here");
    (here.querySelector("[data-open]") ?? here.querySelector("a[href]")).focus();
    here.scrollIntoView({ block: "nearest" });
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key === "j" || event.key === "k") { event.preventDefault(); go(event.key === "j" ? 1 : -1); }
    else if (event.key === "x") document.activeElement.closest?.("tr, li")?.querySelector("input[type=checkbox]")?.click();
    else if (event.key === "?") { event.preventDefault(); document.getElementById("keys").showModal(); }
    else if (event.key === "/") {
      const field = document.querySelector("[data-filter]");
      if (field) { event.preventDefault(); field.focus(); }
    }
  });

  // A word when the workbench does not answer, and when it does again. A stream of events connects again by itself.
  const bar = document.getElementById("connection");
  let lost = false;
  function tell(gone) {
    if (gone === lost) return;
    lost = gone;
    bar.hidden = false;
    bar.classList.toggle("back", !gone);
    bar.textContent = gone
      ? "Connection to the workbench lost. Reconnecting; experiments continue."
      : "Connected again.";
    if (!gone) setTimeout(() => { if (!lost) bar.hidden = true; }, 4000);
  }
  for (const name of ["htmx:sendError", "htmx:sseError", "htmx:timeout"]) document.body.addEventListener(name, () => tell(true));
  for (const name of ["htmx:sseOpen", "htmx:sseMessage"]) document.body.addEventListener(name, () => tell(false));
  document.body.addEventListener("htmx:afterRequest", (event) => { if (event.detail.xhr?.status) tell(false); });
  window.addEventListener("offline", () => tell(true));

  // What is wrong with a field is put beside it while one types; the field says so, too.
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    const slot = event.detail.target;
    if (!slot?.id?.endsWith("-error")) return;
    const field = document.getElementById(slot.id.slice(0, -6));
    const wrong = document.getElementById(slot.id)?.textContent.trim();
    if (wrong) field?.setAttribute("aria-invalid", "true"); else field?.removeAttribute("aria-invalid");
    slot.closest(".field")?.classList.toggle("wrong-field", Boolean(wrong));
  });

  // Of the ways to name a model only the chosen one is shown.
  function sources() {
    const chosen = document.querySelector("input[name=source]:checked");
    if (!chosen) return;
    for (const part of document.querySelectorAll("[data-source]")) part.hidden = part.dataset.source !== chosen.value;
  }
  document.addEventListener("change", (event) => { if (event.target.name === "source") sources(); });
  sources();

  // A list that updates itself keeps which rows are selected.
  let selected = [];
  const boxes = (root) => [...root.querySelectorAll("[data-list] input[type=checkbox]")];
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    selected = boxes(event.detail.target).filter((box) => box.checked).map((box) => box.value);
  });
  document.body.addEventListener("htmx:afterSwap", () => {
    for (const box of boxes(document)) if (selected.includes(box.value)) box.checked = true;
  });

  // A part that updates itself keeps what was in focus: htmx does so for elements with an id, if they are there again.
  // An answer with an error still has something to say: it is put in its place rather than dropped.
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status === 422 || event.detail.xhr.status === 409) { event.detail.shouldSwap = true; event.detail.isError = false; }
  });
})();
