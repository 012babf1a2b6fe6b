"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const PAGE = 200;
const FIRST_GROUPS = 6;
const NAMES = {
  PASS: "PASS", UNVERIFIED: "UNVERIFIED", FAIL: "FAIL", TIMEOUT: "TIMEOUT", SKIPPED: "SKIPPED",
  environment: "environment", running: "running", open: "waiting", unselected: "not selected",
};
const hasTests = Object.values(data.excerpts).some((extra) => extra.tests);
const COLUMNS = [["label", "Case"], ["outcome", "Outcome"], ["duration", "Time"], ["cause", "Cause"], ["attempts", "Attempts"], ...(hasTests ? [["tests", "Tests"]] : []), ["reason", "Reason"]];
const MINOR = ["cause", "attempts", "tests"];
const byId = (id) => document.getElementById(id);
// A case may be called constructor, as something that every object has.
const excerptOf = (item) => (Object.hasOwn(data.excerpts, item.id) ? data.excerpts[item.id] : undefined);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name.toLowerCase()}`) || "#888";
const view = { q: "", outcome: "", cause: "", slot: "", sort: "", down: "", case: "" };
let shown = PAGE;
let found = [];

function make(tag, text = "", className = "") {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  if (className) element.className = className;
  return element;
}
function isolated(tag, text, className = "") {
  const element = make(tag, "", className);
  element.append(make("bdi", text));
  return element;
}
function seconds(value) {
  if (value === null || value === undefined) return "";
  if (value < 60) return `${value.toFixed(value < 1 ? 2 : 1)} s`;
  const whole = Math.round(value);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}
function link(path, text) {
  const element = make("a", text);
  // The path is the bundle's own; each part is encoded, so it can only lead to a place below this file.
  element.setAttribute("href", path.split("/").map(encodeURIComponent).join("/"));
  return element;
}
function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(view)) view[key] = given.get(key) ?? "";
}
function writeHash() {
  const kept = new URLSearchParams(Object.entries(view).filter(([, value]) => value));
  history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname.split("/").pop());
}
function change(values) {
  Object.assign(view, values);
  shown = PAGE;
  try { writeHash(); } catch { location.hash = new URLSearchParams(view); }
  showTable();
}

function showSummary() {
  const batch = data.batch;
  byId("meta").textContent = [batch.source, `${batch.platform} / ${batch.target}`, batch.engine, `${batch.workers || 1} workers`, `version ${batch.version}`]
    .filter((part) => part).join(" · ");
  byId("rate").textContent = data.headline;
  for (const [name, count] of Object.entries(data.counts)) {
    if (!count) continue;
    const part = make("i", "", name);
    part.style.flex = `${count} 1 0`;
    part.style.background = "currentColor";
    part.title = `${count} ${NAMES[name]}`;
    byId("bar").append(part);
    const tile = make("button");
    tile.type = "button";
    tile.dataset.outcome = name;
    tile.append(make("b", String(count), name), make("span", name === "environment" ? "environment: not the package's fault" : NAMES[name]));
    tile.addEventListener("click", () => change({ outcome: view.outcome === name ? "" : name }));
    const item = make("li");
    item.append(tile);
    byId("tiles").append(item);
  }
  byId("foot").textContent = `Written ${batch.updated_at} by atesor ${batch.version}. Batch ${batch.id}.`;
}
function showBeat() {
  const beat = byId("beat");
  if (data.batch.ended) { beat.hidden = true; return; }
  const age = Math.max(0, (Date.now() - Date.parse(data.batch.updated_at)) / 1000);
  const late = age > data.batch.quiet_s;
  const text = `last heartbeat ${seconds(Math.round(age)).replace(/\.0+ /, " ")} ago${late ? ": the batch was killed or stands still; atesor batch resume goes on" : "; reload for news"}`;
  if (beat.textContent !== text) beat.textContent = text;
  beat.classList.toggle("late", late);
}
function showCauses() {
  const chipsShown = window.innerWidth < 760 ? 6 : 20;
  byId("causes-card").hidden = !data.groups.length;
  const rest = make("details");
  rest.append(make("summary", `${data.groups.length - FIRST_GROUPS} more`));
  data.groups.forEach((group, index) => {
    const outcome = group.cause === "environment" ? "environment" : group.status;
    const box = make("div", "", `group ${outcome}`);
    const head = make("p");
    head.append(make("b", `${group.cases.length} × `), make("span", [group.status, group.cause].filter((x) => x).join(" / "), `status ${outcome}`));
    const isOne = new Set(group.cases.map((position) => data.cases[position].reason)).size === 1;
    const signature = make("p");
    signature.append(isolated("code", isOne && group.line ? group.line : group.signature));
    box.append(head, signature);
    if (!isOne && group.line) {
      const line = make("p", "", "soft");
      line.append(make("span", "for example: "), isolated("code", group.line));
      box.append(line);
    }
    const chips = make("div", "", "chips");
    const openers = (positions) => positions.map((position) => opener(data.cases[position]));
    chips.append(...openers(group.cases.slice(0, chipsShown)));
    const hidden = group.cases.slice(chipsShown);
    if (hidden.length) {
      const all = make("button", `and ${hidden.length} more`, "soft");
      all.type = "button";
      all.addEventListener("click", () => {
        const revealed = openers(hidden);
        all.replaceWith(...revealed);
        revealed[0].focus();
      });
      chips.append(all);
    }
    box.append(chips);
    if (group.log) { const p = make("p"); p.append(link(group.log, "open the first log")); box.append(p); }
    (index < FIRST_GROUPS ? byId("causes") : rest).append(box);
  });
  if (data.groups.length > FIRST_GROUPS) byId("causes").append(rest);
}
function opener(item) {
  const button = isolated("button", item.label);
  button.type = "button";
  button.addEventListener("click", () => { change({ case: item.id }); showDetail(); });
  return button;
}

function canvasOf(id, height) {
  const canvas = byId(id);
  const width = canvas.parentElement.clientWidth || 600;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  return [pen, width];
}
let bars = [];
let marked = 0;
function drawTimeline() {
  const spans = [];
  data.cases.forEach((item) => item.attempts.forEach((attempt) => {
    const from = Date.parse(attempt.started_at);
    const to = attempt.ended_at ? Date.parse(attempt.ended_at) : Date.parse(data.batch.updated_at);
    const isPlaced = data.slots.includes(attempt.slot) && !Number.isNaN(from) && !Number.isNaN(to);
    if (isPlaced) spans.push({ item, attempt, from, to: Math.max(to, from) });
  }));
  const slots = data.slots;
  byId("timeline").hidden = byId("timeline-help").hidden = !spans.length;
  if (!spans.length) { byId("timeline-text").textContent = "No attempt has begun."; return; }
  const first = spans.reduce((least, span) => Math.min(least, span.from), Infinity);
  const last = Math.max(spans.reduce((most, span) => Math.max(most, span.to), -Infinity), first + 1000);
  const busy = spans.reduce((sum, span) => sum + span.to - span.from, 0);
  const share = Math.min(100, 100 * busy / ((last - first) * slots.length));
  byId("timeline-text").textContent = `${spans.length} attempts on ${slots.length} slots in ${seconds((last - first) / 1000)}; the slots were busy ${share.toFixed(0)} % of the time. Empty stretches are idle time.`;
  const lane = 26;
  const [pen, width] = canvasOf("timeline", slots.length * lane + 24);
  const left = 44;
  const scale = (width - left - 8) / (last - first);
  bars = [];
  slots.forEach((slot, row) => {
    pen.fillStyle = colour("soft");
    pen.fillText(slot.replace(/^.*-(?=w\d+$)/, "").slice(0, 6), 0, row * lane + 16);
    pen.fillStyle = colour("idle");
    pen.fillRect(left, row * lane + 2, width - left - 8, lane - 6);
  });
  for (const span of spans) {
    const row = slots.indexOf(span.attempt.slot);
    const x = left + (span.from - first) * scale;
    const w = Math.max(1, (span.to - span.from) * scale);
    pen.fillStyle = colour(span.attempt.cause === "environment" ? "environment" : span.attempt.status || "running");
    pen.fillRect(x, row * lane + 2, w > 3 ? w - 1 : w, lane - 6);
    if (w > 46) {
      pen.save();
      pen.beginPath(); pen.rect(x, row * lane, w - 4, lane); pen.clip();
      pen.fillStyle = colour("card");
      pen.fillText(span.item.label.slice(0, 60), x + 5, row * lane + 16);
      pen.restore();
    }
    bars.push({ x, w: Math.max(w, 3), y: row * lane, h: lane, row, span });
  }
  bars.sort((a, b) => a.row - b.row || a.span.from - b.span.from);
  drawAxis(pen, left, width - left - 8, slots.length * lane + 16, (share) => share * (last - first) / 1000);
}
function drawAxis(pen, left, width, y, secondsAt) {
  const steps = width < 480 ? 2 : 4;
  pen.fillStyle = colour("soft");
  for (let step = 0; step <= steps; step += 1) {
    pen.textAlign = step === 0 ? "left" : step === steps ? "right" : "center";
    pen.fillText(seconds(secondsAt(step / steps)), left + step * width / steps, y);
  }
}
function nameBar(bar) {
  const { item, attempt, from, to } = bar.span;
  const status = attempt.cause === "environment" ? "failed by the environment" : attempt.status || "running";
  return `${item.label}: ${status}, ${seconds((to - from) / 1000)}, attempt ${Number(attempt.id)}, slot ${attempt.slot.replace(/^.*-(?=w\d+$)/, "")}`;
}
// One real button stands on the marked bar: ten thousand of them would make the page slow. It is replaced when
// the mark moves, so that a screen reader hears of a new one.
function mark(position, isFocused) {
  if (!bars.length) return;
  marked = Math.max(0, Math.min(bars.length - 1, position));
  const bar = bars[marked];
  const button = make("button", "", "mark");
  button.type = "button";
  button.setAttribute("aria-label", nameBar(bar));
  Object.assign(button.style, { left: `${bar.x}px`, top: `${bar.y + 2}px`, width: `${bar.w}px`, height: `${bar.h - 6}px` });
  button.addEventListener("click", () => { change({ case: bar.span.item.id }); showDetail(); });
  button.addEventListener("focus", () => { byId("timeline-now").textContent = nameBar(bar); });
  button.addEventListener("keydown", moveMark);
  byId("lanes").querySelector(".mark")?.remove();
  byId("lanes").append(button);
  if (isFocused) button.focus();
}
function moveMark(event) {
  const bar = bars[marked];
  const row = bars.map((one, position) => [one, position]).filter(([one]) => one.row === bar.row).map(([, position]) => position);
  const to = { ArrowLeft: Math.max(row[0], marked - 1), ArrowRight: Math.min(row.at(-1), marked + 1), Home: row[0], End: row.at(-1), ArrowUp: besides(bar, -1), ArrowDown: besides(bar, 1) }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  if (to !== marked) mark(to, true);
}
function besides(bar, step) {
  const rows = [...new Set(bars.map((one) => one.row))];
  const row = rows[rows.indexOf(bar.row) + step];
  if (row === undefined) return marked;
  const middle = (bar.span.from + bar.span.to) / 2;
  const distance = (one) => Math.max(one.span.from - middle, middle - one.span.to, 0);
  return bars.reduce((best, one, position) => (one.row === row && (best < 0 || distance(one) < distance(bars[best])) ? position : best), -1);
}
function barAt(event) {
  return bars.findLast((bar) => event.offsetX >= bar.x && event.offsetX <= bar.x + bar.w && event.offsetY >= bar.y && event.offsetY < bar.y + bar.h);
}
function drawDurations() {
  const values = data.cases.filter((item) => item.duration !== null);
  const text = byId("durations-text");
  if (!values.length) { text.textContent = "No case has ended."; byId("durations").hidden = true; return; }
  const sorted = values.map((item) => item.duration).sort((a, b) => a - b);
  const at = (part) => sorted[Math.min(sorted.length - 1, Math.floor(part * sorted.length))];
  text.textContent = `Half of the cases ended within ${seconds(at(0.5))}, nine of ten within ${seconds(at(0.9))}, the longest took ${seconds(at(1))}.`;
  const [pen, width] = canvasOf("durations", 170);
  const low = Math.log(Math.max(0.05, sorted[0])), high = Math.max(Math.log(Math.max(0.05, at(1))), low + 1.5);
  const bins = Math.max(6, Math.min(40, Math.floor(width / 26)));
  const heaps = Array.from({ length: bins }, () => ({}));
  for (const item of values) {
    const bin = Math.min(bins - 1, Math.floor(bins * (Math.log(Math.max(0.05, item.duration)) - low) / (high - low)));
    heaps[bin][item.outcome] = (heaps[bin][item.outcome] || 0) + 1;
  }
  const total = (heap) => Object.values(heap).reduce((sum, count) => sum + count, 0);
  const most = Math.max(...heaps.map(total));
  heaps.forEach((heap, bin) => {
    let y = 144;
    for (const name of Object.keys(NAMES)) {
      if (!heap[name]) continue;
      const height = 126 * heap[name] / most;
      pen.fillStyle = colour(name);
      pen.fillRect(bin * width / bins + 1, y - height, width / bins - 3, height);
      y -= height;
    }
    pen.fillStyle = colour("soft");
    pen.textAlign = "center";
    if (total(heap)) pen.fillText(String(total(heap)), (bin + 0.5) * width / bins, y - 4);
  });
  drawAxis(pen, 0, width, 164, (share) => Math.exp(low + share * (high - low)));
}

function fits(item) {
  if (view.outcome && item.outcome !== view.outcome) return false;
  if (view.cause && item.cause !== view.cause) return false;
  if (view.slot && !item.attempts.some((attempt) => attempt.slot === view.slot)) return false;
  return !view.q || item.text.includes(view.q.toLowerCase());
}
function compare(a, b) {
  const [x, y] = view.sort === "attempts" ? [a.attempts.length, b.attempts.length] : [a[view.sort], b[view.sort]];
  if (x === null || y === null) return (x === null) - (y === null);
  const order = typeof x === "number" ? x - y : x.localeCompare(y);
  return view.down ? -order : order;
}
function showTable() {
  byId("search").value = view.q;
  for (const key of ["outcome", "cause", "slot"]) byId(key).value = view[key];
  document.querySelectorAll("#tiles button").forEach((tile) => tile.setAttribute("aria-pressed", String(tile.dataset.outcome === view.outcome)));
  [...byId("heads").children].forEach((head) => {
    head.setAttribute("aria-sort", head.dataset.key === view.sort ? (view.down ? "descending" : "ascending") : "none");
  });
  found = data.cases.filter(fits);
  if (COLUMNS.some(([key]) => key === view.sort)) found.sort(compare);
  byId("rows").replaceChildren();
  addRows(0);
}
function addRows(from) {
  const rows = document.createDocumentFragment();
  for (const item of found.slice(from, shown)) {
    // On a phone rows are no table rows to CSS, and would not be to a screen reader without roles.
    const row = make("tr");
    row.setAttribute("role", "row");
    const head = make("th");
    head.scope = "row";
    head.setAttribute("role", "rowheader");
    head.append(opener(item));
    const status = make("td");
    status.append(make("span", NAMES[item.outcome], `status ${item.outcome}`));
    row.append(head, status, make("td", seconds(item.duration), "number"), make("td", item.cause, "minor"), make("td", String(item.attempts.length), "number minor"));
    if (hasTests) row.append(isolated("td", item.tests, "minor"));
    row.append(isolated("td", item.reason, "reason"));
    row.querySelectorAll("td").forEach((cell) => cell.setAttribute("role", "cell"));
    rows.append(row);
  }
  byId("rows").append(rows);
  const visible = Math.min(shown, found.length);
  byId("shown").textContent = found.length ? `${visible} of ${found.length} matching cases shown; ${data.cases.length} planned` : "No case matches; clear the filters.";
  byId("more").hidden = visible >= found.length;
}
function showDetail() {
  const item = data.cases.find((one) => one.id === view.case);
  const dialog = byId("detail");
  if (!item) { if (dialog.open) dialog.close(); return; }
  const body = make("div");
  const title = isolated("h2", item.label);
  title.id = "detail-title";
  const line = make("p");
  line.append(make("span", NAMES[item.outcome], `status ${item.outcome}`), make("span", ` ${item.cause} ${seconds(item.duration)}`));
  body.append(title, line);
  if (item.reason) body.append(isolated("p", item.reason));
  body.append(make("h3", "Attempts"));
  if (!item.attempts.length) body.append(make("p", "none yet", "soft"));
  for (const attempt of item.attempts) {
    const entry = make("p");
    const base = `cases/${item.id}/attempts/${attempt.id}`;
    entry.append(make("b", `${attempt.id} `), make("span", attempt.status || "running", `status ${attempt.cause === "environment" ? "environment" : attempt.status || "running"}`),
      isolated("span", ` ${[attempt.cause, seconds(attempt.duration), attempt.slot, attempt.machine ? `on ${attempt.machine}` : "", attempt.started_at, attempt.exit_code === null ? "" : `exit code ${attempt.exit_code}`].filter((x) => x).join(" · ")} `),
      link(`${base}/run.log`, "log"), make("span", " "), link(`${base}/`, "files"));
    body.append(entry);
  }
  const extra = excerptOf(item);
  if (extra) {
    for (const [name, entries] of [["Phases", extra.phases], ["Artifacts", extra.artifacts]]) {
      if (!entries.length) continue;
      const list = make("ul");
      for (const entry of entries) list.append(isolated("li", entry));
      body.append(make("h3", name), list);
    }
    if (extra.tests) body.append(make("h3", "The package's own tests"), isolated("p", extra.tests));
    if (extra.tools !== null) body.append(make("h3", "Native tools of the sandbox"), isolated("p", data.tools[extra.tools], "soft"));
    if (extra.tail) body.append(make("h3", "End of the log"), make("div", extra.tail, "log"));
  }
  byId("detail-body").replaceChildren(body);
  if (!dialog.open) dialog.showModal();
}

function fillSelect(id, every, values) {
  byId(id).append(new Option(every, ""), ...values.map(([value, text]) => new Option(text, value)));
  byId(id).addEventListener("change", (event) => change({ [id]: event.target.value }));
}
function start() {
  for (const item of data.cases) {
    item.text = `${item.label}\n${item.reason}`.toLowerCase();
    item.tests = (excerptOf(item)?.tests ?? "").split(":")[0];
  }
  readHash();
  showSummary();
  showBeat();
  showCauses();
  for (const [key, name] of COLUMNS) {
    const head = make("th", "", `${MINOR.includes(key) ? "minor" : ""} ${["duration", "attempts"].includes(key) ? "number" : ""}`.trim());
    head.scope = "col";
    head.setAttribute("role", "columnheader");
    head.dataset.key = key;
    const button = make("button", name);
    button.type = "button";
    button.addEventListener("click", () => change({ sort: key, down: view.sort === key && !view.down ? "1" : "" }));
    head.append(button);
    byId("heads").append(head);
  }
  const sorted = (values) => [...new Set(values)].filter((value) => value).sort().map((value) => [value, value]);
  fillSelect("outcome", "all", Object.entries(NAMES).filter(([name]) => data.counts[name]));
  fillSelect("cause", "all", sorted(data.cases.map((item) => item.cause)));
  fillSelect("slot", "all", data.slots.map((slot) => [slot, slot]));
  byId("search").addEventListener("input", (event) => change({ q: event.target.value }));
  byId("clear").addEventListener("click", () => change({ q: "", outcome: "", cause: "", slot: "", sort: "", down: "" }));
  byId("more").addEventListener("click", () => { const from = shown; shown += PAGE; addRows(from); });
  byId("detail").addEventListener("close", () => change({ case: "" }));
  byId("timeline").addEventListener("mousemove", (event) => {
    const bar = barAt(event);
    byId("timeline-now").textContent = bar ? nameBar(bar) : "idle";
  });
  byId("timeline").addEventListener("click", (event) => { const bar = barAt(event); if (bar) { change({ case: bar.span.item.id }); showDetail(); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) { event.preventDefault(); byId("search").focus(); }
  });
  window.addEventListener("hashchange", () => { readHash(); showTable(); showDetail(); });
  const draw = () => {
    const isFocused = document.activeElement.className === "mark";
    drawTimeline();
    mark(marked, isFocused);
    drawDurations();
  };
  window.addEventListener("resize", draw);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  showTable();
  draw();
  showDetail();
  setInterval(showBeat, 1000);
}
start();
