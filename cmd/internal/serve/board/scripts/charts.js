// Draws each element with the attribute data-chart as a line chart. The attribute has the times, in seconds, and the
// series. Without this script, the element shows what the server has put into it.
import uPlot from "uplot";

const draw = (place) => {
  const {times, series} = JSON.parse(place.dataset.chart);
  place.replaceChildren();
  const style = getComputedStyle(place);
  const color = (name) => style.getPropertyValue(name).trim();
  const lines = series.map(({label}) => ({label, stroke: color("--busy-fill"), width: 2}));
  const axis = {stroke: color("--dim"), grid: {stroke: color("--line")}, ticks: {stroke: color("--line")}};
  return new uPlot({width: place.clientWidth, height: 160, series: [{}, ...lines], axes: [axis, axis]}, [times, ...series.map((s) => s.values)], place);
};

// The browser paints the server's drawings first.
requestAnimationFrame(() => setTimeout(() => document.querySelectorAll("[data-chart]").forEach(draw)));
