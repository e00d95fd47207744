#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace terse::report {

namespace {

const char* const kStyle = R"(
:root { --paper: #f7f8fa; --card: #ffffff; --ink: #1d2430; --soft: #626d7d; --line: #dfe3e9;
  --encode: #2f6fd0; --communicate: #c77512; --decode: #1f8f68; --bar: #2f6fd0; --faint: #c9d0da;
  --warn: #fff4dc; --warn-ink: #74510a; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14171c; --card: #1d2128; --ink: #e6e9ee; --soft: #98a2b1; --line: #323842;
    --encode: #6ca4f5; --communicate: #e8a34c; --decode: #4fc49a; --bar: #6ca4f5; --faint: #47505d;
    --warn: #3a3018; --warn-ink: #f0cf86; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 25px; margin: 0 0 2px; }
h2 { font-size: 18px; margin: 34px 0 2px; }
h3 { font-size: 16px; margin: 0 0 12px; }
h4 { font-size: 13px; font-weight: 600; margin: 18px 0 6px; color: var(--soft); }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.92em; }
.soft { color: var(--soft); margin: 0 0 12px; }
p code { overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
.heat { display: grid; grid-template-columns: repeat(32, minmax(7px, 1fr)); gap: 1px;
  max-width: 760px; }
.heat i { font-style: normal; }
.heat i::before { content: ""; display: block; background: var(--bar); opacity: var(--of);
  aspect-ratio: 1; border-radius: 1px; }
.heat i.none::before { background: none; border: 1px solid var(--line); }
.heat i:focus { outline: 2px solid var(--ink); }
.heat i:focus::after { content: attr(title); position: fixed; left: 0; right: 0; bottom: 0;
  padding: 10px 20px; background: var(--card); border-top: 1px solid var(--line); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 16px 18px; margin: 12px 0; overflow-x: auto; }
.tiles { margin: 18px 0; }
.tile { display: inline-block; background: var(--card); border: 1px solid var(--line);
  border-radius: 8px; padding: 10px 16px; margin: 0 8px 8px 0; min-width: 128px; }
.tile b { display: block; font-size: 22px; line-height: 1.25; }
.tile span { color: var(--soft); font-size: 13px; }
.warn { background: var(--warn); color: var(--warn-ink); border-radius: 8px; padding: 10px 16px; }
.warn ul { margin: 4px 0; padding-left: 20px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: right; color: var(--soft); font-weight: 600; font-size: 13px; }
td { text-align: right; }
th, td { padding: 4px 8px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
td.mark { font-weight: 700; }
svg { display: block; width: 100%; max-width: 600px; height: auto; }
svg text { font: 12px system-ui, "DejaVu Sans", sans-serif; fill: var(--ink); }
.white svg text { fill: #1d2430; }
svg text.soft { fill: var(--soft); }
.bars { display: grid; grid-template-columns: minmax(3.5em, max-content) 1fr max-content;
  gap: 0 8px; align-items: center; font-size: 12px; line-height: 1.4; }
.bars b { font-weight: 400; }
.bars i { min-width: 1px; border-radius: 2px; }
.bars span { color: var(--soft); white-space: nowrap; }
.key { font-size: 13px; color: var(--soft); margin: 0 0 4px; }
.key i { display: inline-block; width: 11px; height: 11px; border-radius: 2px;
  margin: 0 5px 0 14px; }
.key i:first-child { margin-left: 0; }
)";

}  // namespace

std::string page(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{0}</title>\n"
      "<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n{2}</main>\n</body>\n</html>\n",
      escape(title), kStyle, body);
}

std::string escape(const std::string& text) {
  std::string safe;
  for (const char c : text) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      default:
        safe += c;
    }
  return safe;
}

std::string plot(const std::vector<Line>& lines, int thickness) {
  double most = 0;
  for (const Line& line : lines)
    for (const Bar& bar : line.bars)
      if (std::isfinite(bar.value)) most = std::max(most, bar.value);
  std::string body;
  for (const Line& line : lines) {
    std::string name = escape(line.name);
    for (const Bar& bar : line.bars) {
      const double share = !std::isfinite(bar.value) ? 1 : most > 0 ? bar.value / most : 0;
      body += fmt::format(
          "<b>{}</b><i title=\"{}: {}\" style=\"width: {:.1f}%; height: {}px; background: "
          "var(--{})\"></i><span>{}</span>\n",
          std::exchange(name, ""), escape(line.name), bar.text, 100 * share, thickness - 2,
          bar.colour, bar.text);
    }
  }
  return fmt::format("<div class=\"bars\">\n{}</div>\n", body);
}

}  // namespace terse::report
