/* The item browser: filters, a paged list, and one item in a dialog. Whatever comes from data is shown as text. */

(async () => {
  const PAGE = 50;
  const byId = (id) => document.getElementById(id);
  if (!byId("answers")) { /* a page of score tables: there are no items to show */
    document.documentElement.dataset.ready = "0";
    return;
  }
  const say = (text) => { byId("count").textContent = text; };
  let data;
  try {
    data = await unpacked;
  } catch (error) {
    say(`The items could not be unpacked (${error.message}); a browser of 2023 or later is needed.`);
    return;
  }
  const { words, rows, items, arms, sentences, texts, factors } = data;
  const word = (place) => (place < 0 ? null : words[place]);
  const readable = (text) => String(text).replaceAll("_", " ");
  const total = rows.item.length;
  const facts = items.map((item) => new Map(item.factors.map(([name, value]) => [factors[name], words[value]])));
  const model = (row) => arms[rows.arm[row]].model;
  const strategy = (row) => word(rows.strategy[row]);
  const order = (a, b) => String(a).localeCompare(String(b), "en", { numeric: true });
  const all = Array.from({ length: total }, (_, row) => row);
  const vanillaFirst = (row) => (strategy(row)?.endsWith("vanilla") ? 0 : 1);
  all.sort((a, b) => rows.item[a] - rows.item[b] || rows.arm[a] - rows.arm[b] || vanillaFirst(a) - vanillaFirst(b) || a - b);
  const ofItem = items.map(() => []);
  for (const row of all) ofItem[rows.item[row]].push(row);
  const versions = items.map(() => []);
  data.base.forEach((base, place) => { if (base >= 0) versions[base].push(place); });
  const place = new Map(items.map((item, index) => [item.id, index]));

  /* An answer is flipped where the same question was answered rightly and wrongly. */
  const flips = (side) => {
    const seen = new Map();
    for (const row of all) {
      const key = `${rows.item[row]} ${side(row)}`;
      seen.set(key, (seen.get(key) ?? 0) | (rows.right[row] ? 1 : 2));
    }
    return (row) => seen.get(`${rows.item[row]} ${side(row)}`) === 3;
  };
  const betweenStrategies = flips((row) => rows.arm[row]);
  const betweenModels = flips((row) => rows.strategy[row]);

  /* Filters */
  /* Another tool's grade counts as read, though it may not say the answer. */
  const unread = (row) => !rows.right[row] && rows.answer[row] < 0 && word(rows.status[row]) !== "ok";
  const NAMES = data.labels; /* factor -> its name on the page, as the study says */
  const OUTCOMES = {
    right: (row) => rows.right[row] === 1,
    wrong: (row) => rows.right[row] === 0,
    "no answer": unread,
  };
  const FLIPS = {
    "between strategies": betweenStrategies,
    "between runs or models": betweenModels,
    either: (row) => betweenStrategies(row) || betweenModels(row),
  };
  const distinct = (value) => [...new Set(all.map(value).filter((text) => text !== null && text !== undefined))];
  let design = Object.keys(NAMES).filter((name) => factors.includes(name));
  if (!design.length) {
    const count = (name) => new Set(facts.map((own) => own.get(name))).size;
    design = factors.filter((name) => count(name) > 1 && count(name) <= 30).slice(0, 5);
  }
  const filters = new Map();
  const addFilter = (name, label, options, test) => {
    const id = `filter-${filters.size}`;
    const select = make("select", { name, id, change: () => apply() }, new Option("any", ""));
    for (const [value, text] of options) select.append(new Option(text, value));
    byId("filters").append(make("div", { class: "field" }, make("label", { for: id }, label), select));
    filters.set(name, { select, test });
  };
  const plain = (values) => values.map((value) => [value, readable(value)]);
  if (arms.length > 1) {
    const named = arms.map((arm, index) => [String(index), arm.run === arm.model ? arm.model : `${arm.model} (${arm.run})`]);
    addFilter("arm", "Model", named, (row, wanted) => String(rows.arm[row]) === wanted);
  }
  for (const name of design) {
    const values = distinct((row) => facts[rows.item[row]].get(name));
    values.sort((a, b) => (b === "none") - (a === "none") || order(a, b));
    addFilter(name, NAMES[name] ?? readable(name), plain(values), (row, wanted) => facts[rows.item[row]].get(name) === wanted);
  }
  addFilter("strategy", "Strategy", plain(distinct(strategy)), (row, wanted) => strategy(row) === wanted);
  addFilter("outcome", "Right or wrong", plain(Object.keys(OUTCOMES)), (row, wanted) => OUTCOMES[wanted](row));
  const possible = Object.keys(FLIPS).filter((name) => all.some(FLIPS[name]));
  if (possible.length) addFilter("flipped", "Flipped", plain(possible), (row, wanted) => FLIPS[wanted](row));
  /* Whether chains have a place here: somebody stated one, or there is one that would be right. */
  const chained = all.some((row) => rows.chain[row] >= 0 || rows.broken[row] >= 0) || items.some((item) => item.gold >= 0);
  const kinds = distinct((row) => word(rows.kind[row])).sort(order);
  if (chained) addFilter("kind", "Chain breaks", [["proper", "not at all (proper)"], ["some", "in any way"], ...plain(kinds)], (row, wanted) => {
    if (wanted === "proper") return rows.chain[row] >= 0 && rows.kind[row] < 0;
    return wanted === "some" ? rows.kind[row] >= 0 : word(rows.kind[row]) === wanted;
  });
  const search = make("input", { type: "search", name: "text", id: "filter-text", input: () => apply(), autocomplete: "off" });
  byId("filters").append(make("div", { class: "field" }, make("label", { for: "filter-text" }, "Item id contains"), search));
  byId("filters").append(make("button", { type: "button", click: () => clear() }, "Clear filters"));
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("filters").hidden = false;

  /* Mistakes by the values of the first factor: a link to each list, those with the largest share first. */
  const offerMistakes = (name) => {
    const counts = new Map();
    for (const row of all) {
      const value = facts[rows.item[row]].get(name);
      if (value === undefined) continue;
      const own = counts.get(value) ?? counts.set(value, [0, 0]).get(value);
      own[0] += 1 - rows.right[row];
      own[1] += 1;
    }
    const links = [...counts].filter(([value, [wrong]]) => value && wrong).sort(([, [a, m]], [, [b, n]]) => b / n - a / m).map(([value, [wrong, of]]) =>
      make("a", { href: `#${new URLSearchParams({ outcome: "wrong", [name]: value })}` }, `${readable(value)} ${wrong.toLocaleString("en")} of ${of.toLocaleString("en")}`));
    if (!links.length) return;
    byId("mistakes").append(make("strong", {}, `Wrong answers by ${(NAMES[name] ?? readable(name)).toLowerCase()}: `), ...links);
    byId("mistakes").hidden = false;
  };
  if (design.length) offerMistakes(design[0]);

  let chosen = all;
  let page = 0;
  let listed = "#items"; /* the address of the list */
  const clear = () => {
    for (const { select } of filters.values()) select.value = "";
    search.value = "";
    apply();
  };
  const apply = () => {
    const active = [...filters.values()].filter(({ select }) => select.value);
    const typed = search.value.trim().toLowerCase();
    chosen = all.filter((row) =>
      active.every(({ select, test }) => test(row, select.value)) &&
      (!typed || items[rows.item[row]].id.toLowerCase().includes(typed)));
    page = 0;
    list();
  };

  /* The list */
  const address = (row) => {
    const parts = new URLSearchParams({ item: items[rows.item[row]].id });
    if (arms.length > 1) parts.set("model", arms[rows.arm[row]].model);
    if (strategy(row)) parts.set("strategy", strategy(row));
    return `#${parts}`;
  };
  const outcome = (row) => (rows.right[row]
    ? make("span", { class: "right" }, "✓ right")
    : make("span", { class: "wrong" }, unread(row) ? `✗ ${readable(word(rows.status[row]))}` : "✗ wrong"));
  const breaks = (row) => {
    if (rows.kind[row] < 0) return rows.chain[row] >= 0 ? "proper" : "";
    return readable(word(rows.kind[row])) + (rows.break[row] > 0 ? `, sentence ${rows.break[row]}` : "");
  };
  const soft = (text) => text.split("_").flatMap((part, at) => (at ? ["_", make("wbr"), part] : [part]));
  const breakable = (id) => id.split("/").flatMap((part, at) => (at ? [make("wbr"), `/${part}`] : [part]));
  const COLUMNS = [
    ["Item", (row) => make("a", { href: address(row) }, ...breakable(items[rows.item[row]].id))],
    ...(arms.length > 1 ? [["Model", model]] : []),
    ["Strategy", strategy],
    ["Answer", (row) => word(rows.answer[row]) ?? "–"],
    ["Gold", (row) => words[items[rows.item[row]].answer]],
    ["Outcome", outcome],
    ...(chained ? [["Chain breaks", breaks]] : []),
  ];
  const head = make("tr");
  for (const [name] of COLUMNS) head.append(make("th", { scope: "col" }, name));
  byId("answers").tHead.replaceChildren(head);
  const list = () => {
    const pages = Math.max(1, Math.ceil(chosen.length / PAGE));
    const body = document.createDocumentFragment();
    for (const row of chosen.slice(page * PAGE, (page + 1) * PAGE)) {
      body.append(make("tr", {}, ...COLUMNS.map(([, cell]) => make("td", {}, cell(row) ?? "–"))));
    }
    byId("answers").tBodies[0].replaceChildren(body);
    const right = chosen.reduce((sum, row) => sum + rows.right[row], 0);
    const share = chosen.length ? `, ${right.toLocaleString("en")} right (${Math.round((100 * right) / chosen.length)}%)` : "";
    say(`${chosen.length.toLocaleString("en")} of ${total.toLocaleString("en")} answers${share}`);
    byId("pages").textContent = `page ${page + 1} of ${pages}`;
    byId("previous").disabled = page === 0;
    byId("next").disabled = page + 1 >= pages;
  };
  const turn = (by) => { page += by; list(); byId("answers").parentElement.scrollTop = 0; };
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));

  /* Words that differ between two texts: the longest common subsequence stays. */
  const common = (a, b, same = (x, y) => x === y) => {
    const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
    for (let i = a.length - 1; i >= 0; i--) {
      for (let j = b.length - 1; j >= 0; j--) {
        table[i][j] = same(a[i], b[j]) ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    const pairs = [];
    for (let i = 0, j = 0; i < a.length && j < b.length;) {
      if (same(a[i], b[j])) pairs.push([i++, j++]);
      else if (table[i + 1][j] >= table[i][j + 1]) i++;
      else j++;
    }
    return pairs;
  };
  const marked = (text, other, tag) => {
    const [own, theirs] = [text, other].map((one) => (one ?? "").split(/(\s+)/).filter((part) => part.trim()));
    const kept = new Set(common(own, theirs).map(([index]) => index));
    const paragraph = make("p");
    for (let i = 0; i < own.length;) {
      const same = kept.has(i);
      let j = i;
      while (j < own.length && kept.has(j) === same) j++;
      const run = own.slice(i, j).join(" ");
      if (i) paragraph.append(" ");
      paragraph.append(same ? run : make(tag, {}, run));
      i = j;
    }
    return paragraph;
  };
  const similar = (a, b) => {
    const [x, y] = [a, b].map((text) => text.toLowerCase().split(/\W+/));
    return common(x, y).length / Math.max(x.length, y.length);
  };
  const beside = (before, after) => {
    const [a, b] = [before, after].map((item) => item.story.map((index) => sentences[index]));
    const grid = make("div", { class: "beside" }, make("h4", {}, `Original: ${before.id}`), make("h4", {}, `This item: ${after.id}`));
    const pairs = [...common(a, b, (x, y) => similar(x, y) > 0.5), [a.length, b.length]];
    let [i, j] = [0, 0];
    for (const [x, y] of pairs) {
      for (; i < x || j < y; i += i < x, j += j < y) {
        grid.append(i < x ? marked(a[i], null, "del") : make("p", { "aria-label": "no such sentence" }, "–"));
        grid.append(j < y ? marked(b[j], null, "ins") : make("p", { "aria-label": "no such sentence" }, "–"));
      }
      if (x < a.length) {
        const same = a[x] === b[y];
        grid.append(same ? make("p", { class: "same" }, a[x]) : marked(a[x], b[y], "del"));
        grid.append(same ? make("p", { class: "same" }, b[y]) : marked(b[y], a[x], "ins"));
      }
      [i, j] = [x + 1, y + 1];
    }
    const [q, r] = [before, after].map((item) => sentences[item.question]);
    grid.append(q === r ? make("p", { class: "same" }, q) : marked(q, r, "del"), q === r ? make("p", { class: "same" }, r) : marked(r, q, "ins"));
    return grid;
  };

  /* One item */
  const SIGNS = {
    right: "✓ right", skipped: "– not stated", too_early: "✗ too early", too_late: "✗ too late",
    other_belief: "✗ another's belief", wrong: "✗ wrong", out_of_vocabulary: "✗ not a label",
  };
  const chainOf = (row) => {
    const [numbers, labels, verdicts] = data.chains[rows.chain[row]];
    const stated = new Map(numbers.map((number, index) => [number, word(labels[index] ?? -1)]));
    return (number) => {
      const verdict = word(verdicts[number - 1] ?? -1);
      const tone = verdict === "right" ? "ok" : verdict === null || verdict === "skipped" ? "none" : "off";
      return make("td", { class: tone }, stated.get(number) ?? "–", make("span", { class: "v" }, verdict ? SIGNS[verdict] ?? readable(verdict) : ""));
    };
  };
  const story = (item, own) => {
    const chains = own.filter((row) => rows.chain[row] >= 0);
    const gold = item.gold < 0 ? null : data.golds[item.gold];
    const table = make("table", { class: "story" });
    const line = make("tr", {}, make("th", { scope: "col" }, "#"), make("th", { scope: "col" }, "Sentence"));
    for (const [heading] of item.beliefs) line.append(make("th", { scope: "col", class: "belief" }, heading));
    if (gold) line.append(make("th", { scope: "col" }, "Gold"));
    for (const row of chains) line.append(make("th", { scope: "col" }, `${readable(strategy(row))}: stated belief`));
    table.append(make("thead", {}, line));
    const cells = chains.map(chainOf);
    const body = make("tbody");
    item.story.forEach((index, at) => {
      const parts = chains.some((row) => rows.break[row] === at + 1);
      const tr = make("tr", { class: parts ? "parts" : "" }, make("td", {}, String(at + 1)), make("td", {}, sentences[index]));
      for (const [, labels] of item.beliefs) {
        tr.append(make("td", { class: at && labels[at] === labels[at - 1] ? "belief same" : "belief" }, ...soft(words[labels[at]])));
      }
      if (gold) tr.append(make("td", {}, gold[0][at].map((label) => words[label]).join(" or ")));
      cells.forEach((cell, which) => {
        const td = cell(at + 1);
        if (rows.break[chains[which]] === at + 1) td.append(make("strong", { class: "v" }, "parts from gold here"));
        tr.append(td);
      });
      body.append(tr);
    });
    const foot = make("tr", {}, make("td"), make("td", {}, "Answer"), ...item.beliefs.map(() => make("td")));
    if (gold) foot.append(make("td", {}, words[item.answer]));
    for (const row of chains) foot.append(make("td", { class: rows.right[row] ? "ok" : "off" }, `${rows.right[row] ? "✓" : "✗"} ${word(rows.answer[row]) ?? "none"}`));
    table.append(body, make("tfoot", {}, foot));
    const parts = [make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Story, gold and chain" }, table)];
    if (item.beliefs.length) {
      parts.push(make("p", { class: "legend" }, "The columns say who believes what after each sentence, as the belief tracker follows it; grey: the same as after the sentence before. A › B: what A thinks that B believes."));
    }
    if (gold?.[1].length) {
      const edges = gold[1].map(([at, from, to]) => `into sentence ${at + 1}: ${words[from]} → ${words[to]}`);
      parts.push(make("p", { class: "legend" }, `Changes of belief that the gold chain allows: ${edges.join("; ")}.`));
    }
    for (const row of chains) {
      const [numbers, labels] = data.chains[rows.chain[row]];
      const beyond = numbers.flatMap((number, at) => (number > item.story.length ? [word(labels[at] ?? -1) ?? "no label"] : []));
      if (beyond.length) parts.push(make("p", { class: "legend" }, `${readable(strategy(row))}: the chain goes on beyond the story's last sentence: ${beyond.join(", ")}.`));
    }
    const unread = own.filter((row) => rows.broken[row] >= 0);
    for (const row of unread) parts.push(make("p", { class: "legend" }, `${readable(strategy(row))}: the chain could not be read (${texts[rows.broken[row]]}).`));
    if (gold && !chains.length && !unread.length) parts.push(make("p", { class: "legend" }, "The strategies shown here do not ask for a belief chain."));
    return parts;
  };
  /* What the model wrote: one reply, or every reply of a conversation or of several samples, in their order. */
  const FOLDED = 600; /* a longer reply that is not the answer is folded */
  const written = (title, text, opened) => make("details", { open: opened }, make("summary", {}, title), make("pre", {}, text));
  const raw = (row) => {
    const parts = rows.talk[row] >= 0 ? talk(row, data.talks[rows.talk[row]]) : [];
    if (!parts.length) {
      for (const [title, column] of [["text", rows.text], ["reasoning", rows.reasoning]]) {
        if (column[row] >= 0) parts.push(written(`${readable(strategy(row))}: ${title} as the model wrote it`, texts[column[row]], column === rows.text));
      }
    }
    if (!parts.length) parts.push(make("p", { class: "absent" }, `${readable(strategy(row))}: no text came back (${readable(word(rows.status[row]))}).`));
    if (rows.reason[row] >= 0) parts.push(make("p", { class: "legend" }, `Why there is no answer: ${texts[rows.reason[row]]}`));
    return parts;
  };
  const talk = (row, replies) => {
    const last = new Map(); /* sample -> its last turn */
    for (const [sample, turn] of replies) last.set(sample, Math.max(turn, last.get(sample) ?? 0));
    const ended = new Set(replies.filter((reply) => reply[6] === 1).map(([sample]) => sample));
    const several = last.size > 1;
    const parts = [];
    let of = -1;
    for (const [sample, turn, status, text, reasoning, reused, closes, concluded] of replies) {
      const turns = last.get(sample) + 1;
      const single = turns === 1 && several; /* one request a sample has nothing to close */
      const place = [several ? `sample ${sample + 1} of ${last.size}` : null, single ? null : `turn ${turn + 1}${ended.has(sample) ? ` of ${turns}` : ""}`].filter((one) => one !== null).join(", ");
      const scored = !several || sample === rows.sample[row];
      const spoken = ["ok", "length"].includes(word(status));
      const answered = (closes === 1 || single) && concluded < 0 && spoken;
      const marks = [
        answered && scored ? "the answer" : null,
        closes === 1 && !answered ? "ended the conversation" : null,
        reused ? "shared with an equal request" : null,
        word(status) === "ok" ? null : readable(word(status)),
      ].filter((one) => one !== null);
      const name = `${readable(strategy(row))}, ${place}${marks.length ? ` (${marks.join("; ")})` : ""}`;
      const holder = make("div", { class: answered && scored ? "turn answered" : "turn" });
      if (sample !== of && several && !single) parts.push(make("h4", {}, `Sample ${sample + 1}`));
      of = sample;
      if (text < 0) holder.append(make("p", { class: "absent" }, `${name}: no text came back.`));
      else holder.append(written(name, texts[text], (answered && scored) || texts[text].length <= FOLDED));
      if (reasoning >= 0) holder.append(written(`${readable(strategy(row))}, ${place}: reasoning`, texts[reasoning], false));
      parts.push(holder);
      if (concluded >= 0) {
        parts.push(make("div", { class: scored ? "turn answered" : "turn" }, written(`${readable(strategy(row))}: the answer, which the strategy made from these replies`, texts[concluded], true)));
      }
    }
    if (!several && !ended.size && word(rows.status[row]) === "unfinished") {
      parts.push(make("p", { class: "absent" }, "This conversation is not finished, so it counts as no answer; repeat the command that asked to go on with it."));
    }
    return parts;
  };
  const answersOf = (index, chosenArm) => {
    const base = data.base[index];
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...["Model", "Strategy", "Answer", "Outcome", ...(chained ? ["Chain breaks"] : []), ...(base >= 0 ? ["On the original"] : [])].map((name) => make("th", { scope: "col" }, name)))));
    const body = make("tbody");
    for (const row of ofItem[index]) {
      const other = base < 0 ? undefined : ofItem[base].find((one) => rows.arm[one] === rows.arm[row] && rows.strategy[one] === rows.strategy[row]);
      body.append(make("tr", { class: rows.arm[row] === chosenArm ? "chosen" : "" },
        make("td", {}, arms.length > 1 ? make("a", { href: address(row) }, model(row)) : model(row)), make("td", {}, readable(strategy(row))),
        make("td", {}, word(rows.answer[row]) ?? "–"), make("td", {}, outcome(row)), ...(chained ? [make("td", {}, breaks(row))] : []),
        ...(base >= 0 ? [make("td", {}, ...(other === undefined ? ["not asked"] : [`${word(rows.answer[other]) ?? "–"} `, outcome(other)]))] : [])));
    }
    table.append(body);
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All answers to this item" }, table);
  };
  const dialog = byId("item");
  let returnTo = null;
  const linkTo = (index) => make("a", { href: `#${new URLSearchParams({ item: items[index].id })}` }, items[index].id);
  const open = (row) => {
    const index = rows.item[row];
    const item = items[index];
    const own = ofItem[index].filter((other) => rows.arm[other] === rows.arm[row]);
    const at = chosen.indexOf(row);
    const step = (by, text) => make("button", {
      type: "button", disabled: at < 0 || at + by < 0 || at + by >= chosen.length, "data-step": String(by),
      click: () => { location.replace(address(chosen[at + by])); },
    }, text);
    const copied = make("span", { role: "status", class: "copied" });
    const bar = make("div", { class: "bar" }, step(-1, "← Previous"), step(1, "Next →"),
      make("span", { class: "legend" }, at < 0 ? "" : `answer ${at + 1} of ${chosen.length}`), make("span", { class: "space" }), copied,
      make("button", { type: "button", click: async () => {
        try { await copy(location.href); copied.textContent = "Link copied."; } catch (error) { copied.textContent = error.message; }
      } }, "Copy link"),
      make("button", { type: "button", "data-close": true, click: () => dialog.close() }, "Close"));
    const chips = make("ul", { class: "chips" });
    for (const [name, value] of facts[index]) chips.append(make("li", {}, make("b", {}, `${readable(name)}: `), readable(value)));
    const inside = make("div", { class: "inside" }, make("h2", { id: "item-title", tabindex: "-1" }, item.id),
      make("p", { class: "question" }, sentences[item.question]),
      make("p", { class: "legend" }, `${item.choices.length ? `Choices: ${item.choices.map((label) => words[label]).join(", ")}` : "Any text may answer it"}. Right answer: ${words[item.answer]}.`),
      make("p", { class: "legend" }, ...own.flatMap((other, at) => [at ? "; " : "", `${readable(strategy(other))}: ${word(rows.answer[other]) ?? "–"} `, outcome(other)])),
      make("h3", {}, !chained ? "Story" : arms.length > 1 ? `Story, gold beliefs and the chain of ${model(row)}` : "Story, gold beliefs and the model's chain"), ...story(item, own),
      make("h3", {}, "All answers"), answersOf(index, rows.arm[row]), chips,
      make("h3", {}, arms.length > 1 ? `What ${model(row)} wrote` : "What the model wrote"), ...own.flatMap(raw));
    if (data.base[index] >= 0) {
      inside.append(make("h3", {}, "What differs from the original"),
        make("p", { class: "legend" }, "Marked: words only here (underlined), words only in the original (struck out). ", linkTo(data.base[index])),
        beside(items[data.base[index]], item));
    } else if (versions[index].length) {
      inside.append(make("h3", {}, "Its other versions"), make("ul", {}, ...versions[index].map((other) => make("li", {}, linkTo(other)))));
    }
    dialog.replaceChildren(bar, inside);
    if (!dialog.open) {
      returnTo = document.activeElement;
      dialog.showModal();
    }
    dialog.scrollTop = 0;
    byId("item-title").focus({ preventScroll: true });
  };
  dialog.addEventListener("close", () => {
    history.replaceState(null, "", listed);
    if (returnTo?.isConnected) returnTo.focus();
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: "-1", ArrowRight: "1" }[event.key];
    if (by && !event.altKey && !event.ctrlKey && !event.metaKey && !event.target.closest("[tabindex='0'], pre")) dialog.querySelector(`[data-step="${by}"]`)?.click();
  });
  const route = () => {
    const wanted = new URLSearchParams(location.hash.slice(1));
    if (!wanted.has("item")) {
      if (![...filters.keys()].some((name) => wanted.has(name))) return;
      for (const [name, { select }] of filters) select.value = wanted.get(name) ?? "";
      listed = location.hash;
      apply();
      byId("items").scrollIntoView();
      return;
    }
    const index = place.get(wanted.get("item"));
    if (index === undefined) {
      say(`There is no item ${wanted.get("item")} in this report.`);
      return;
    }
    const fits = (row) => (!wanted.has("model") || model(row) === wanted.get("model")) && (!wanted.has("strategy") || strategy(row) === wanted.get("strategy"));
    open(ofItem[index].find(fits) ?? ofItem[index][0]);
  };
  addEventListener("hashchange", route);
  list();
  route();
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
