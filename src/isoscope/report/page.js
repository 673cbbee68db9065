(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);

  // Charts (JSON) and tables (CSV) are compressed inside the page.
  const unpack = async (name) => {
    const bytes = Uint8Array.from(atob(byId(`packed-${name}`).textContent), (c) => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };

  // What the reader chose is remembered where the browser allows it; a file opened from disk may not be allowed.
  const remember = (store, name, value) => { try { store().setItem(`isoscope-${name}`, value); } catch { /* not allowed */ } };
  const recall = (store, name) => { try { return store().getItem(`isoscope-${name}`); } catch { return null; } };
  const always = () => window.localStorage, here = () => window.sessionStorage;

  // Light or dark: as the system has it unless the reader chooses.
  const THEMES = ["auto", "light", "dark"];
  const setTheme = (theme) => {
    document.documentElement.dataset.theme = theme;
    document.querySelector("meta[name=color-scheme]").content = theme === "auto" ? "light dark" : theme;
    byId("theme").textContent = `theme: ${theme}`;
  };
  const known = recall(always, "theme");
  setTheme(THEMES.includes(known) ? known : "auto");
  byId("theme").hidden = false;
  byId("theme").addEventListener("click", () => {
    const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
    setTheme(theme);
    remember(always, "theme", theme);
  });

  // Charts: drawn one after the other so that the page stays alive; told which tokens and which step the reader chose.
  const views = new Map();
  const signal = (view, name, value) => {
    try { view.signal(name, value).runAsync(); } catch { /* a chart that does not depend on it */ }
  };
  const policy = () => document.querySelector("#policy input:checked")?.value;
  const stepOf = (slider) => Number(slider.dataset.steps.split(" ")[Number(slider.value)]);
  const settle = (place, view) => {
    if (policy() !== undefined) signal(view, "policy", policy());
    const slider = place.closest(".figure")?.querySelector("[data-steps]");
    if (slider) signal(view, "step", stepOf(slider));
  };
  const options = {
    // A model without a final norm leaves a layer of its charts empty, which is no mistake: level 1 is errors only.
    mode: "vega-lite", renderer: "svg", logLevel: 1, tooltip: { theme: "custom" },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const library = unpack("vega").then((text) => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
  });
  const charts = unpack("charts").then(JSON.parse);
  const draw = async (place) => {
    if (views.has(place)) return;
    views.set(place, null);
    try {
      await library;
      const { view } = await window.vegaEmbed(place, (await charts)[Number(place.dataset.chart)], options);
      views.set(place, view);
      settle(place, view);
    } catch (error) {
      place.className = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
    }
  };
  const drawAll = async () => {
    for (const place of document.querySelectorAll(".panel:not([hidden]) [data-chart]")) await draw(place);
    document.documentElement.dataset.drawn = "all";
  };
  const drawn = () => [...views].filter(([, view]) => view);
  byId("policy")?.addEventListener("change", () => {
    drawn().forEach(([, view]) => signal(view, "policy", policy()));
    remember(here, "policy", policy());
  });
  for (const slider of document.querySelectorAll("[data-steps]")) {
    slider.addEventListener("input", () => {
      slider.parentElement.querySelector("output").textContent = stepOf(slider).toLocaleString("en");
      const figure = slider.closest(".figure");
      drawn().filter(([place]) => figure.contains(place)).forEach(([, view]) => signal(view, "step", stepOf(slider)));
    });
  }
  for (const choice of document.querySelectorAll("[data-metric]")) {
    choice.addEventListener("change", async () => {
      const panels = choice.closest(".figure").querySelector(".panels");
      const wanted = choice.value;
      panels.classList.toggle("one", wanted !== "first" && wanted !== "all");
      [...panels.children].forEach((panel, i) => {
        panel.hidden = wanted === "first" ? i > 5 : wanted !== "all" && i !== Number(wanted);
      });
      for (const place of panels.querySelectorAll(".panel:not([hidden]) [data-chart]")) await draw(place);
      window.dispatchEvent(new Event("resize"));
    });
  }

  // Data: of a figure what its charts hold, of the run the tables as they are.
  const save = (name, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = `isoscope-${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const titled = (spec, i) => {
    const title = spec.title?.text ?? spec.title;
    return Array.isArray(title) ? title.join(", ") : typeof title === "string" ? title : `panel ${i + 1}`;
  };
  const csv = (specs) => {
    const rows = specs.flatMap((spec, i) => Object.values(spec.datasets ?? {}).flat().map((row) => ({ panel: titled(spec, i), ...row })));
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
  };
  for (const button of document.querySelectorAll("[data-rows]")) {
    button.addEventListener("click", async () => {
      const specs = await charts;
      save(button.dataset.name, csv(button.dataset.rows.split(" ").map((number) => specs[Number(number)])));
    });
  }
  for (const button of document.querySelectorAll("[data-save]")) {
    button.addEventListener("click", async () => save(button.dataset.save, await unpack(button.dataset.save)));
  }

  // The full table, shown a page at a time.
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

  const SHOWN = ["model", "kind", "metric", "policy", "stack", "layer", "value", "low", "high", "interval_about", "null", "n", "d", "revision", "step", "seed", "head"];
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

  const failed = (error) => { byId("where").textContent = `The table could not be unpacked: ${error.message}`; };
  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    table().catch(failed);
  }, { rootMargin: "600px" }).observe(byId("numbers"));

  // Menus stay inside the window, and close when something else is touched.
  for (const menu of document.querySelectorAll("details.menu")) {
    menu.addEventListener("toggle", () => {
      const list = menu.querySelector("ul");
      list.style.left = "";
      const over = list.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
      if (menu.open && over > 0) list.style.left = `${-over}px`;
    });
  }
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  });

  // Behind a server the page asks whether the run has grown, and comes back where the reader was.
  const state = document.documentElement.dataset.state;
  if (state) {
    const before = recall(here, "policy");
    const input = [...document.querySelectorAll("#policy input")].find((one) => one.value === before);
    if (input) input.checked = true;
    setInterval(async () => {
      try {
        const answer = await fetch("state" + location.search);
        if (!answer.ok || (await answer.text()) === state) return; // a server that was started anew has another token
        remember(here, "scroll", String(window.scrollY));
        window.location.reload();
      } catch { /* the server is gone; the page stays as it is */ }
    }, 3000);
  }
  drawAll().then(() => {
    const scroll = state && recall(here, "scroll");
    if (!scroll) return;
    window.scrollTo(0, Number(scroll));
    remember(here, "scroll", "");
  });
})();
