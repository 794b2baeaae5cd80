"use strict";
// Tabs, sorting and keys. Without it, all parts of the report stand one below the other.
(() => {
  const nav = document.getElementById("tabs");
  const views = [...document.querySelectorAll(".view")];
  const tabs = [...nav.querySelectorAll("a")].map((link, place) => {
    const tab = document.createElement("button");
    tab.textContent = link.textContent;
    tab.id = "tab-" + views[place].id;
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", views[place].id);
    tab.addEventListener("click", () => open(place));
    link.replaceWith(tab);
    return tab;
  });
  nav.setAttribute("role", "tablist");

  function open(place) {
    tabs.forEach((tab, other) => {
      const chosen = other === place;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      views[other].hidden = !chosen;
      views[other].setAttribute("role", "tabpanel");
    });
    history.replaceState(null, "", "#" + views[place].id);
  }

  const linked = () => Math.max(0, views.findIndex((view) => "#" + view.id === location.hash));
  open(linked());
  window.addEventListener("hashchange", () => open(linked()));

  nav.addEventListener("keydown", (event) => {
    const now = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const place = (to + tabs.length) % tabs.length;
    open(place);
    tabs[place].focus();
  });
  document.addEventListener("keydown", (event) => {
    const place = Number(event.key) - 1;
    if (!event.ctrlKey && !event.metaKey && !event.altKey && tabs[place]) open(place);
  });

  for (const table of document.querySelectorAll("table.sortable")) {
    table.querySelectorAll("th").forEach((heading, column) => {
      const button = document.createElement("button");
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      const first = table.tBodies[0].rows[0];
      if (first && first.cells[column] && first.cells[column].className === "number") heading.className = "number";
      button.addEventListener("click", () => sort(table, heading, column));
    });
  }

  function sort(table, heading, column) {
    const down = heading.getAttribute("aria-sort") === "descending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "ascending" : "descending");
    const key = (row) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    };
    const compare = (a, b) =>
      typeof a === "number" && typeof b === "number" ? a - b
        : typeof a === typeof b ? a.localeCompare(b) : typeof a === "number" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => (down ? 1 : -1) * compare(key(a), key(b)));
    table.tBodies[0].append(...rows);
  }
})();
