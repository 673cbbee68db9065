(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

  // Charts (JSON) and tables (CSV) are compressed inside the page.
  const unpack = async (name) => {
    const bytes = Uint8Array.from(atob(byId(`packed-${name}`).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };

  // Charts: drawn one after the other so that the page stays alive, and told which tokens the reader chose.
  const views = [];
  const chosen = () => document.querySelector("#policy input:checked")?.value;
  const setPolicy = (view) => {
    const value = chosen();
    if (value === undefined) return;
    try { view.signal("policy", value).runAsync(); } catch { /* a chart that does not depend on the tokens */ }
  };
  const options = {
    // A model without a final norm leaves a layer of its charts empty, which is no mistake: level 1 is errors only.
    mode: "vega-lite", renderer: "svg", logLevel: 1, tooltip: { theme: "custom" },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const drawAll = async () => {
    const specs = JSON.parse(await unpack("charts"));
    for (const place of document.querySelectorAll("[data-chart]")) {
      try {
        const { view } = await window.vegaEmbed(place, specs[Number(place.dataset.chart)], options);
        views.push(view);
        setPolicy(view);
      } catch (error) {
        place.className = "failed";
        place.textContent = `This chart could not be drawn: ${error.message}`;
      }
    }
  };
  byId("policy")?.addEventListener("change", () => views.forEach(setPolicy));

  // Tables: saved as they are, and shown a page at a time.
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", async () => {
      const name = button.dataset.save;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await unpack(name)], { type: "text/csv" }));
      link.download = `isoscope-${name}.csv`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
  const parse = (text) => {
    const rows = [];
    let row = [], cell = "", quoted = false;
    for (let i = 0; i < text.length; i++) {
      const c = text[i];
      if (quoted) {
        if (c !== '"') cell += c;
        else if (text[i + 1] === '"') { cell += '"'; i++; }
        else quoted = false;
      } else if (c === '"') quoted = true;
      else if (c === ",") { row.push(cell); cell = ""; }
      else if (c === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
      else if (c !== "\r") cell += c;
    }
    return rows;
  };

  const SHOWN = ["model", "kind", "metric", "policy", "stack", "layer", "value", "low", "high", "null", "n", "d", "revision", "step", "seed", "head"];
  const CHOICES = ["model", "step", "seed", "stack", "kind", "metric", "policy"];
  const NUMBERS = new Set(["value", "low", "high", "null"]);
  const SIZE = 25;
  const table = async () => {
    const [names, ...rows] = parse(await unpack("table"));
    const at = Object.fromEntries(names.map((name, i) => [name, i]));
    const columns = SHOWN.filter((name) => rows.some((row) => row[at[name]] !== ""));
    let kept = rows, first = 0;
    const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
    const head = byId("full").createTHead().insertRow();
    for (const name of columns) head.append(element("th", name));
    const body = byId("full").createTBody();
    const show = () => {
      body.replaceChildren(...kept.slice(first, first + SIZE).map((row) => {
        const line = document.createElement("tr");
        for (const name of columns) {
          const text = row[at[name]];
          const cell = element("td", NUMBERS.has(name) && text !== "" ? String(Number(Number(text).toPrecision(6))) : text);
          if (NUMBERS.has(name)) cell.title = text;
          line.append(cell);
        }
        return line;
      }));
      byId("where").textContent = kept.length ? `${first + 1}–${Math.min(first + SIZE, kept.length)} of ${kept.length}` : "no rows";
      byId("previous").disabled = first === 0;
      byId("next").disabled = first + SIZE >= kept.length;
    };
    const inputs = {};
    const filter = () => {
      kept = rows.filter((row) => Object.entries(inputs).every(([name, input]) => input.value === "" || row[at[name]] === input.value));
      first = 0;
      show();
    };
    for (const name of CHOICES) {
      const values = [...new Set(rows.map((row) => row[at[name]]))].filter((value) => value !== "");
      if (values.length < 2) continue;
      const label = element("label", name);
      const input = document.createElement("select");
      input.append(new Option("all of them", ""), ...values.map((value) => new Option(value, value)));
      input.addEventListener("change", filter);
      inputs[name] = input;
      label.append(input);
      byId("filters").append(label);
    }
    byId("previous").addEventListener("click", () => { first = Math.max(0, first - SIZE); show(); });
    byId("next").addEventListener("click", () => { first += SIZE; show(); });
    show();
  };

  table().catch((error) => { byId("where").textContent = `The table could not be unpacked: ${error.message}`; });
  drawAll();
})();
