"use strict";
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const by = (id) => document.getElementById(id);
  const shown = (stop) => stop.matches("section") || stop.parentElement.closest("details:not([open])") === null;

  // -- light and dark --------------------------------------------------------------------------------------------
  const themes = ["auto", "light", "dark"];
  const kept = { get: () => { try { return localStorage.getItem("atl-theme"); } catch { return null; } },
    set: (value) => { try { localStorage.setItem("atl-theme", value); } catch { /* a file may have no storage */ } } };
  const dress = (theme) => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    by("theme").textContent = `Theme: ${theme}`;
  };
  let theme = themes.includes(kept.get()) ? kept.get() : "auto";
  dress(theme);
  const nextTheme = () => { theme = themes[(themes.indexOf(theme) + 1) % themes.length]; kept.set(theme); dress(theme); };
  by("theme").addEventListener("click", nextTheme);

  // -- where one is: the call at the top of the window, unless a key has just chosen another ------------------------
  const stops = all("[data-stop]");
  let here = null;
  const links = new Map(all("nav a").map((link) => [link.getAttribute("href").slice(1), link]));
  const current = (stop) => {
    const section = stop.closest("main > section");
    for (const [id, link] of links) {
      if (id === section.id) {
        if (link.getAttribute("aria-current") === null) {
          link.setAttribute("aria-current", "true");
          const list = link.closest("nav");
          const box = link.getBoundingClientRect(), around = list.getBoundingClientRect();
          if (box.top < around.top || box.bottom > around.bottom) list.scrollTop += box.top - around.top - around.height / 2;
          const row = link.closest("ol");
          if (row.scrollWidth > row.clientWidth) row.scrollLeft = link.offsetLeft - row.clientWidth / 3;
        }
      } else link.removeAttribute("aria-current");
    }
  };
  const sections = stops.filter((stop) => stop.matches("section"));
  const atTop = () => sections.filter((section) => section.getBoundingClientRect().top < innerHeight / 3).pop() ?? sections[0];
  let chosen = false, waiting = false;
  addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; if (!chosen) current(atTop()); });
  }, { passive: true });
  addEventListener("wheel", () => { chosen = false; }, { passive: true });
  addEventListener("touchmove", () => { chosen = false; }, { passive: true });

  const goTo = (stop, { quick = false } = {}) => {
    for (let above = stop.parentElement; above; above = above.parentElement) if (above.tagName === "DETAILS") above.open = true;
    here?.classList.remove("here");
    here = stop;
    stop.classList.add("here");
    chosen = true;
    current(stop);
    stop.scrollIntoView({ block: "start", behavior: quick ? "instant" : "auto" });
    (stop.matches("details") ? stop.querySelector("summary") : stop).focus({ preventScroll: true });
    if (stop.id) history.replaceState(null, "", `#${stop.id}`);
  };
  const walk = (by_) => {
    const open = stops.filter(shown);
    const at = here && open.includes(here) ? open.indexOf(here) : open.indexOf(atTop());
    goTo(open[Math.min(Math.max(at + by_, 0), open.length - 1)]);
  };
  const fromAddress = () => {
    let target = null;
    try { target = by(decodeURIComponent(location.hash.slice(1))); } catch { return; }
    if (!target) return;
    if (target.matches("details.step")) target.open = true;
    if (target.matches("[data-stop]")) goTo(target, { quick: true });
  };
  addEventListener("hashchange", fromAddress);

  // -- folds --------------------------------------------------------------------------------------------------------
  const steps = all("details.step");
  const unfold = (open) => {
    for (const step of steps) step.open = open;
    by("unfold").setAttribute("aria-pressed", String(open));
    by("unfold").textContent = open ? "Fold" : "Unfold";
  };
  const allUnfolded = () => by("unfold").getAttribute("aria-pressed") === "true";
  by("unfold").addEventListener("click", () => unfold(!allUnfolded()));
  const toggle = () => {
    const stop = here ?? atTop();
    if (stop.matches("details")) { stop.open = !stop.open; return; }
    const inside = all("details.step", stop);
    const open = !inside.every((step) => step.open);
    for (const step of inside) step.open = open;
  };
  let before = null;
  addEventListener("beforeprint", () => { before = steps.map((step) => step.open); for (const step of steps) step.open = true; });
  addEventListener("afterprint", () => { before?.forEach((open, at) => { steps[at].open = open; }); before = null; });

  // -- search -------------------------------------------------------------------------------------------------------
  const field = by("search"), count = by("found");
  let texts = null, matches = [], at = -1;
  const searched = () => texts ??= stops.map((stop) => {
    const own = stop.matches("section") ? all(":scope > :not(.steps)", stop) : [stop];
    return [stop, own.map((part) => part.textContent).join(" ").replace(/\s+/g, " ").toLowerCase()];
  });
  const paint = (wanted) => {
    if (!window.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("found");
    if (!wanted) return;
    const ranges = [];
    for (const match of matches) {
      const texts_ = document.createTreeWalker(match, NodeFilter.SHOW_TEXT);
      for (let node = texts_.nextNode(); node && ranges.length < 2000; node = texts_.nextNode()) {
        const text = node.data.toLowerCase();
        for (let from = text.indexOf(wanted); from >= 0; from = text.indexOf(wanted, from + wanted.length)) {
          const range = new Range();
          range.setStart(node, from);
          range.setEnd(node, Math.min(from + wanted.length, node.data.length));
          ranges.push(range);
        }
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  };
  const search = () => {
    for (const match of matches) match.classList.remove("match", "current");
    const wanted = field.value.trim().replace(/\s+/g, " ").toLowerCase();
    matches = wanted ? searched().filter(([, text]) => text.includes(wanted)).map(([stop]) => stop) : [];
    at = -1;
    for (const match of matches) match.classList.add("match");
    count.textContent = wanted ? (matches.length ? `${matches.length} found` : "nothing") : "";
    paint(wanted);
  };
  const toMatch = (by_) => {
    if (!matches.length) return;
    matches[at]?.classList.remove("current");
    at = (at + by_ + matches.length + (at < 0 && by_ < 0 ? 1 : 0)) % matches.length;
    const match = matches[at];
    match.classList.add("current");
    if (match.matches("details")) match.open = true;
    const typing = document.activeElement === field;
    goTo(match);
    if (typing) field.focus({ preventScroll: true });
    count.textContent = `${at + 1} of ${matches.length}`;
  };
  field.addEventListener("input", search);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); toMatch(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { field.value = ""; search(); field.blur(); }
  });

  // -- loops and binders --------------------------------------------------------------------------------------------
  const linked = by("code")?.querySelector(".linked");
  if (linked) {
    const parts = new Map();
    for (const part of all("[data-of]", linked)) {
      const key = part.dataset.of;
      parts.set(key, [...(parts.get(key) ?? []), part]);
    }
    // The lines of a loop are those of the loops within it too.
    for (const loop of linked.querySelector(".listing").dataset.loops.split(" ").filter(Boolean)) {
      const [key, first, last] = loop.split(":");
      const own = parts.get(key) ?? [];
      for (let number = Number(first); number <= Number(last); number++) {
        const line = by(`line-${number}`);
        if (!own.includes(line)) own.push(line);
      }
      parts.set(key, own);
    }
    let lit = [];
    const light = (key) => {
      for (const part of lit) part.classList.remove("lit");
      lit = key ? parts.get(key) ?? [] : [];
      for (const part of lit) part.classList.add("lit");
      const binder = lit.find((part) => part.matches(".binder"));
      const pane = binder?.closest("pre");
      if (pane && !pane.matches(":hover, :focus-within")) {
        const box = binder.getBoundingClientRect(), around = pane.getBoundingClientRect();
        if (box.top < around.top || box.bottom > around.bottom) pane.scrollTop += box.top - around.top - around.height / 3;
      }
    };
    const keyOf = (event) => event.target.closest?.("[data-of]")?.dataset.of ?? null;
    let focused = null;
    linked.addEventListener("pointerover", (event) => light(keyOf(event) ?? focused));
    linked.addEventListener("pointerleave", () => light(focused));
    linked.addEventListener("focusin", (event) => { focused = keyOf(event); light(focused); });
    linked.addEventListener("focusout", () => { focused = null; light(null); });
  }

  // -- keys -----------------------------------------------------------------------------------------------------------
  const help = by("help");
  by("keys").addEventListener("click", () => help.showModal());
  const acts = {
    j: () => walk(1), ArrowDown: () => walk(1), k: () => walk(-1), ArrowUp: () => walk(-1), o: toggle,
    e: () => unfold(!allUnfolded()), "/": () => { field.focus(); field.select(); }, n: () => toMatch(1), N: () => toMatch(-1),
    g: () => goTo(sections[0]), G: () => goTo(sections[sections.length - 1]), t: nextTheme, "?": () => help.showModal(),
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest?.("input, textarea, select, dialog")) return;
    if (event.key.startsWith("Arrow") && event.target.closest?.("pre")) return;
    if (event.key === "Enter" && here?.matches("section") && event.target === here) { event.preventDefault(); toggle(); return; }
    const act = acts[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  current(sections[0]);
  fromAddress();
  document.documentElement.dataset.ready = "true";
})();
