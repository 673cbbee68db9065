(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const html = document.documentElement;

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
    html.dataset.theme = theme;
    document.querySelector("meta[name=color-scheme]").content = theme === "auto" ? "light dark" : theme;
    byId("theme").textContent = `theme: ${theme}`;
  };
  const nextTheme = () => {
    setTheme(THEMES[(THEMES.indexOf(html.dataset.theme) + 1) % THEMES.length]);
    remember(always, "theme", html.dataset.theme);
  };

  // The data of the charts: stored once, by column; a panel names its datasets.
  let pack = unpack("charts").then(JSON.parse);
  const records = (columns) => {
    const names = Object.keys(columns);
    return (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
  };

  // The reader's choice of models, metric and tokens.
  const policy = () => document.querySelector("#policy input:checked")?.value;
  const metric = () => byId("metric")?.value ?? "";
  const hiddenModels = () => all("#models input:not(:checked)").map((input) => input.value);
  const shown = (name) => String(name).replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd"); // as the page writes names
  const isPart = (name, whole) => name === whole || name.startsWith(`${whole} · `);
  // Whether a name stands for hidden models only; a name without any model, such as that of a reference curve, is never hidden.
  const hiding = () => {
    const hidden = hiddenModels(), lines = all("#models input").map((input) => input.value), known = new Map();
    return (name) => {
      if (!name || !hidden.length) return false;
      const own = known.has(name) ? [] : lines.filter((line) => isPart(line, shown(name)) || isPart(shown(name), line));
      if (!known.has(name)) known.set(name, own.length > 0 && own.every((line) => hidden.includes(line)));
      return known.get(name);
    };
  };
  const titleOf = (panel) => panel.title?.text ?? panel.title;
  const wordsOf = (panel, i) => {
    const title = titleOf(panel);
    return Array.isArray(title) ? title.join(", ") : typeof title === "string" ? title : `panel ${i + 1}`;
  };
  const rowsOf = ({ datasets }, name, isHidden) => records(datasets[name]).filter((row) => !isHidden(row.line ?? row.curve ?? row.row));
  const isHiddenPanel = ({ datasets }, panel, isHidden) => {
    const names = panel.datasets.flatMap((name) => [...new Set(datasets[name].line ?? [])]);
    return isHidden([titleOf(panel)].flat()[0]) || (names.length > 0 && names.every(isHidden));
  };

  // Shows what is chosen: panels, rows and sections of these models, and of each figure of many metrics the chosen one.
  const applyChoice = async () => {
    const data = await pack, isHidden = hiding(), wanted = metric().startsWith("=") && metric().slice(1);
    const panelOf = (panel) => data.panels[Number(panel.firstChild.dataset.chart)];
    const isWanted = (panel) => shown(titleOf(panelOf(panel))) === wanted;
    for (const panels of all(".panels")) {
      const own = all(":scope > .panel:not(#chosen)", panels), isMany = "choices" in panels.dataset, hasIt = isMany && own.some(isWanted);
      own.forEach((panel, i) => {
        const isOut = isMany && (hasIt ? !isWanted(panel) : metric() !== "*" && i > 5);
        panel.hidden = isOut || isHiddenPanel(data, panelOf(panel), isHidden);
      });
      if (isMany) panels.classList.toggle("one", hasIt);
    }
    const large = byId("chosen"), found = all("[data-choices] .panel").find(isWanted)?.firstChild.dataset.chart;
    if (large) {
      large.hidden = !found;
      large.nextElementSibling.hidden ||= Boolean(found);
      if (found && large.firstChild.dataset.chart !== found) {
        large.replaceChildren(Object.assign(document.createElement("div"), { className: "chart" }));
        large.firstChild.dataset.chart = found;
        inView.observe(large.firstChild);
      }
    }
    for (const part of all("[data-model]")) part.hidden = isHidden(part.dataset.model);
    for (const [, chart] of drawn()) {
      chart.names.forEach((name, i) => chart.view.data(name, rowsOf(data, chart.sources[i], isHidden)));
      setSignals(chart);
    }
    window.dispatchEvent(new Event("resize"));
  };

  // Charts are drawn when they come into view, one after the other so that the page stays alive.
  const charts = new Map();
  const drawn = () => [...charts].filter(([place, chart]) => chart && place.isConnected);
  const stepOf = (slider) => Number(slider.dataset.steps.split(" ")[Number(slider.value)]);
  const setSignal = (view, name, value) => { try { view.signal(name, value); } catch { /* a chart that does not depend on it */ } };
  const setSignals = ({ place, view, panel, data }) => {
    place.nextElementSibling.querySelector("code").textContent = pythonOf(data, place, panel);
    if (policy() !== undefined) setSignal(view, "policy", policy());
    const slider = place.closest(".figure")?.querySelector("[data-steps]");
    if (slider) setSignal(view, "step", stepOf(slider));
    return view.runAsync();
  };
  const library = unpack("vega").then((text) => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
  });
  // A model without a final norm leaves a layer of its charts empty, which is no mistake: level 1 is errors only.
  const OPTIONS = { mode: "vega-lite", renderer: "svg", logLevel: 1, tooltip: { theme: "custom" }, actions: false };
  const draw = async (place) => {
    if (charts.has(place) || !place.isConnected) return;
    charts.set(place, null);
    try {
      await library;
      const data = await pack, panel = data.panels[Number(place.dataset.chart)], isHidden = hiding();
      const datasets = Object.fromEntries(panel.datasets.map((name) => [name, rowsOf(data, name, isHidden)]));
      const height = place.closest("#chosen") ? { height: 290 } : {};
      const { view } = await window.vegaEmbed(place, { ...panel, ...height, datasets, config: data.config }, OPTIONS);
      const chart = { place, view, panel, data, names: panel.datasets, sources: panel.datasets, shape: shapeOf(panel) };
      charts.set(place, chart);
      place.style.minHeight = "";
      const svg = place.querySelector("svg.marks");
      const name = `${place.closest(".figure").querySelector("h3")?.textContent ?? "Summary"}: ${wordsOf(panel, 0)}`;
      svg?.setAttribute("role", "img");
      svg?.setAttribute("aria-label", `${name}. Its numbers: Export, CSV.`);
      if (!place.nextElementSibling) {
        place.after(byId("export").content.cloneNode(true));
        place.nextElementSibling.firstChild.setAttribute("aria-label", `Export ${name}`);
      }
      await setSignals(chart);
    } catch (error) {
      place.className = "failed";
      place.textContent = `This chart could not be drawn: ${error.message}`;
    }
  };
  let queue = Promise.resolve();
  const enqueue = (places) => {
    queue = queue.then(async () => {
      for (const place of places) await draw(place);
      html.dataset.drawn = all(".panel:not([hidden]) [data-chart]").every((place) => charts.has(place)) ? "all" : "seen";
    });
    return queue;
  };
  const drawAll = () => enqueue(all(".panel:not([hidden]) [data-chart]"));
  const inView = new IntersectionObserver((entries) => {
    const near = entries.filter((entry) => entry.isIntersecting).map((entry) => entry.target);
    near.forEach((place) => inView.unobserve(place));
    enqueue(near);
  }, { rootMargin: "400px" });

  // Files: of a chart a picture, its numbers and the line of Python that draws it; of the run the tables as they are.
  const save = (name, content, type) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
    link.download = `isoscope-${name}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csvOf = (lines) => lines.map((cells) => `${cells.map(quoted).join(",")}\n`).join("");
  const csv = (data, panels) => {
    const rows = panels.flatMap((panel, i) => panel.datasets.flatMap((name) => records(data.datasets[name]).map((row) => ({ panel: wordsOf(panel, i), ...row }))));
    const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    return csvOf([columns, ...rows.map((row) => columns.map((name) => row[name]))]);
  };
  const pythonOf = (data, place, panel) => {
    const { figure } = place.closest("[data-figure]").dataset, isLarge = place.closest("#headline") && !place.closest("#chosen");
    const name = isLarge ? data.datasets[panel.datasets[0]].metric[0] : place.closest("[data-figure=layer_profile], [data-choices]") && titleOf(panel);
    const words = ["RUN", figure].map((word) => JSON.stringify(word)).join(", "), metric = typeof name === "string" ? `, metric=${JSON.stringify(name)}` : "";
    if (figure !== "layer_profile" || !metric) return `from isoscope.report import draw_figure; draw_figure(${words}${metric})`;
    const tokens = (policy() ?? "all") === "all" ? "" : `, policy=${JSON.stringify(policy())}`;
    return `import isoscope; isoscope.open("RUN").plot(${JSON.stringify(name)}${tokens})`;
  };
  const exportChart = async (kind, button) => {
    const place = button.closest(".panel").querySelector("[data-chart]"), { view } = charts.get(place);
    const data = await pack, panel = data.panels[Number(place.dataset.chart)];
    const name = `${place.closest(".figure").id}-${place.dataset.chart}.${kind}`;
    if (kind === "csv") return save(name, csv(data, [panel]), "text/csv");
    if (kind === "python") return navigator.clipboard?.writeText(pythonOf(data, place, panel)).then(() => { button.textContent = "Copied"; }, () => {});
    const svg = (await view.toSVG()).replaceAll("currentColor", "black");
    if (kind === "svg") return save(name, svg, "image/svg+xml");
    const picture = new Image(), canvas = document.createElement("canvas");
    picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
    await picture.decode();
    [canvas.width, canvas.height] = [2 * picture.width, 2 * picture.height];
    const context = canvas.getContext("2d");
    context.fillStyle = "white";
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, blob));
  };

  // The tables: by column; texts are numbers into a list of words.
  const tableOf = async (name) => Object.fromEntries(Object.entries(JSON.parse(await unpack(name))).map(([column, data]) =>
    [column, data.codes ? data.codes.map((code) => (code < 0 ? null : data.words[code])) : data]));
  const tableCsv = (columns) => csvOf([Object.keys(columns), ...columns.model.map((_, i) => Object.values(columns).map((column) => column[i]))]);

  // The full table: filtered, sorted and shown a page at a time.
  const SHOWN = ["model", "kind", "metric", "policy", "stack", "layer", "value", "low", "high", "interval_about", "null", "n", "d", "revision", "step", "seed", "head"];
  const CHOICES = ["model", "step", "seed", "stack", "kind", "metric", "policy"];
  const SIZE = 25;
  const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });
  const showTable = async () => {
    const table = await tableOf("table"), rows = table.metric.map((_, i) => i);
    const columns = SHOWN.filter((name) => table[name].some((value) => value !== null));
    let kept = rows, first = 0, sorted = "", down = false;
    const show = () => {
      body.replaceChildren(...kept.slice(first, first + SIZE).map((row) => {
        const line = document.createElement("tr");
        for (const name of columns) {
          const value = table[name][row] ?? "", cell = element("td", typeof value === "number" ? String(Number(value.toPrecision(6))) : value);
          if (typeof value === "number") cell.title = value;
          line.append(cell);
        }
        return line;
      }));
      byId("where").textContent = kept.length ? `${first + 1}–${Math.min(first + SIZE, kept.length)} of ${kept.length}` : "no rows";
      byId("previous").disabled = first === 0;
      byId("next").disabled = first + SIZE >= kept.length;
    };
    const inputs = {}, search = document.createElement("input");
    const compare = (a, b) => {
      const [x, y] = [table[sorted][a], table[sorted][b]];
      if (x === null || y === null) return (x === null) - (y === null); // rows without a value come last in either direction
      return (x < y ? -1 : Number(x > y)) * (down ? -1 : 1);
    };
    const filter = () => {
      const wanted = search.value.toLowerCase(), texts = columns.filter((name) => typeof table[name].find((value) => value !== null) === "string");
      kept = rows.filter((row) => Object.entries(inputs).every(([name, { value }]) => value === "" || String(table[name][row]) === value));
      if (wanted) kept = kept.filter((row) => texts.some((name) => table[name][row]?.toLowerCase().includes(wanted)));
      if (sorted) kept = [...kept].sort(compare);
      first = 0;
      show();
    };
    const head = byId("full").createTHead().insertRow();
    for (const name of columns) {
      const cell = Object.assign(document.createElement("th"), { scope: "col" }), button = element("button", name);
      button.type = "button";
      button.addEventListener("click", () => {
        down = sorted === name && !down;
        sorted = name;
        all("th", head).forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        filter();
      });
      cell.append(button);
      head.append(cell);
    }
    const body = byId("full").createTBody();
    const addFilter = (name, input, event) => {
      const label = element("label", name);
      input.addEventListener(event, filter);
      label.append(input);
      byId("filters").append(label);
    };
    for (const name of CHOICES) {
      const values = [...new Set(table[name])].filter((value) => value !== null);
      if (values.length < 2) continue;
      inputs[name] = document.createElement("select");
      inputs[name].append(new Option("all of them", ""), ...values.map((value) => new Option(value, value)));
      addFilter(name, inputs[name], "change");
    }
    search.type = "search";
    addFilter("contains", search, "input");
    byId("previous").addEventListener("click", () => { first = Math.max(0, first - SIZE); show(); });
    byId("next").addEventListener("click", () => { first += SIZE; show(); });
    show();
  };

  // A part of the page that has just been put there: its charts and table are made when they come into view.
  const links = () => all("nav a").map((link) => [link, byId(decodeURIComponent(link.hash.slice(1)))]).filter(([, part]) => part);
  const markSection = () => {
    const [current] = links().findLast(([, part]) => !part.hidden && part.getBoundingClientRect().top < innerHeight / 3) ?? [];
    for (const [link] of links()) link === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  };
  const begin = () => {
    for (const id of ["theme", "print"]) byId(id).hidden = false;
    setTheme(THEMES.includes(recall(always, "theme")) ? recall(always, "theme") : "auto");
    all("[data-chart]").filter((place) => !charts.has(place)).forEach((place) => inView.observe(place));
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      showTable().catch((error) => { byId("where").textContent = `The table could not be unpacked: ${error.message}`; });
    }, { rootMargin: "600px" }).observe(byId("numbers"));
    markSection();
    enqueue([]);
    return applyChoice();
  };

  // Every control is heard here, so that a page that is exchanged needs no new listeners.
  const choice = () => JSON.stringify([policy(), metric(), hiddenModels()]);
  const setChoice = (text) => {
    const [tokens, wanted, hidden] = JSON.parse(text ?? "[]");
    for (const input of all("#policy input")) if (input.value === tokens) input.checked = true;
    for (const option of all("#metric option")) if (option.value === wanted) option.selected = true;
    for (const input of all("#models input")) input.checked = !(hidden ?? []).includes(input.value);
  };
  document.addEventListener("change", ({ target }) => {
    if (!target.closest("#choose")) return;
    remember(here, "choice", choice());
    applyChoice();
  });
  document.addEventListener("input", ({ target }) => {
    if (!target.dataset.steps) return;
    target.parentElement.querySelector("output").textContent = stepOf(target).toLocaleString("en");
    for (const [place, chart] of drawn()) if (target.closest(".figure").contains(place)) setSignals(chart);
  });
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    if (button.id === "theme") nextTheme();
    if (button.id === "print") drawAll().then(() => window.print());
    if (button.dataset.export) await exportChart(button.dataset.export, button);
    if (button.dataset.save) save(`${button.dataset.save}.csv`, tableCsv(await tableOf(button.dataset.save)), "text/csv");
    if (button.dataset.rows) {
      const data = await pack;
      save(`${button.dataset.name}.csv`, csv(data, button.dataset.rows.split(" ").map((number) => data.panels[Number(number)])), "text/csv");
    }
  });
  window.addEventListener("beforeprint", drawAll);
  let marking = 0;
  window.addEventListener("scroll", () => { marking ||= setTimeout(() => { marking = 0; markSection(); }, 100); }, { passive: true });

  // Behind a server the page follows the run: parts are exchanged in place, and charts that did not change stay as they are.
  const shapeOf = (panel) => panel.datasets.reduce((text, name, i) => text.replaceAll(JSON.stringify(name), `"#${i}"`), JSON.stringify(panel));
  const keyOf = (place) => place.closest("#chosen") ? "chosen" : `${place.closest(".figure").id} ${all("[data-chart]", place.closest(".figure")).indexOf(place)}`;
  const exchange = async (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    if (!fresh.getElementById("packed-charts")) return window.location.reload(); // a page that waits or has failed
    const chosen = choice();
    const open = Object.fromEntries(all("details[data-key]").map((part) => [part.dataset.key, part.open]));
    const before = new Map(drawn().map(([place, chart]) => [keyOf(place), Object.assign(chart, { height: place.offsetHeight })]));
    const focus = document.activeElement?.id, top = window.scrollY;
    for (const name of ["charts", "table", "series"]) byId(`packed-${name}`).textContent = fresh.getElementById(`packed-${name}`).textContent;
    pack = unpack("charts").then(JSON.parse);
    const data = await pack;
    for (const part of ["header", ".side", "main", "footer"]) document.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
    for (const part of all("details[data-key]")) if (part.dataset.key in open) part.open = open[part.dataset.key];
    setChoice(chosen);
    const again = [];
    for (const place of all("[data-chart]")) {
      const chart = before.get(keyOf(place)), panel = data.panels[Number(place.dataset.chart)];
      if (!chart) continue;
      if (chart.shape === shapeOf(panel)) { // the same chart of newer numbers: its drawing moves
        const tools = chart.place.nextElementSibling;
        chart.place.dataset.chart = place.dataset.chart;
        place.replaceWith(chart.place);
        if (tools) chart.place.after(tools);
        chart.sources = panel.datasets;
      } else {
        place.style.minHeight = `${chart.height}px`;
        again.push(place);
      }
    }
    for (const [place, chart] of charts) {
      if (place.isConnected) continue;
      chart?.view.finalize();
      charts.delete(place);
    }
    window.scrollTo(0, top);
    html.dataset.state = fresh.documentElement.dataset.state;
    byId("news").textContent = `Updated ${new Date().toLocaleTimeString()}.`;
    await begin();
    if (focus) byId(focus)?.focus({ preventScroll: true });
    await enqueue(again);
  };
  if (html.dataset.state) {
    setChoice(recall(here, "choice"));
    const newer = async () => {
      try {
        const answer = await fetch(`state${location.search}`);
        if (!answer.ok || (await answer.text()) === html.dataset.state) return "";
        const page = await fetch(location.href);
        return page.ok ? await page.text() : "";
      } catch { return ""; } // the server is gone; the page stays as it is
    };
    const look = async () => {
      const page = await newer();
      if (page) await exchange(page);
      setTimeout(look, 2000);
    };
    setTimeout(look, 2000);
  }
  if (matchMedia("(max-width: 60rem)").matches) for (const fold of all(".side .fold")) fold.open = false;
  begin();
})();
