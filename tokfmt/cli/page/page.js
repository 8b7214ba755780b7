"use strict";
(() => {
  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // what the button said; until then the system decides

  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  // colours in figures are written as "@name" and looked up in the theme
  const coloured = (value) => {
    if (typeof value === "string") return /^@\w+$/.test(value) ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map(coloured);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one)]));
  };

  const axis = (given) => ({
    gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), automargin: true,
    tickfont: { size: 12 }, ...given, title: { standoff: 8, ...(given && given.title) },
  });

  const layout = (figure) => ({
    ...coloured(figure.layout),
    xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
    margin: { l: 8, r: 12, t: figure.layout.annotations ? 40 : 12, b: 8 }, showlegend: false,
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), font: { color: colour("ink") } },
  });

  const draw = () => {
    root.dataset.theme = chosen || (system.matches ? "dark" : "light");
    figures.forEach((figure, index) => {
      Plotly.react(`figure-${index}`, coloured(figure.data), layout(figure), {
        responsive: true, displaylogo: false, displayModeBar: "hover",
        modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
      });
    });
  };

  // a button above a figure turns one of its axes logarithmic and back
  figures.forEach((figure, index) => {
    if (!figure.switchable) return;
    const place = document.getElementById(`figure-${index}`);
    const button = document.createElement("button");
    button.type = "button";
    button.className = "switch";
    button.textContent = "log scale";
    button.addEventListener("click", () => {
      const now = figure.layout[figure.switchable];
      now.type = now.type === "log" ? "linear" : "log";
      button.setAttribute("aria-pressed", String(now.type === "log"));
      draw();
    });
    place.before(button);
  });

  document.getElementById("theme").addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    draw();
  });
  document.getElementById("copy").addEventListener("click", async (event) => {
    const text = document.getElementById("report").textContent;
    await navigator.clipboard.writeText(text);
    event.target.textContent = "copied";
  });
  system.addEventListener("change", draw);
  draw();
})();
