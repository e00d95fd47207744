"""One HTML page with the tables and the pictures, which needs nothing else."""

from html import escape

import table
from plan import TITLES

_STYLE = """body { font: 15px/1.5 Helvetica, Arial, sans-serif; margin: 2em auto; }
body { max-width: 1320px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: 3px 10px; text-align: right; border-bottom: 1px solid #dde2e7; }
td:first-child, th:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } .note { color: #555; }"""


def _table(rows):
    first, *others = table.table(rows)
    lines = ["<table>", _row("th", first), *(_row("td", cells) for cells in others), "</table>"]
    return "\n".join(lines)


def _row(kind, cells):
    return "<tr>" + "".join(f"<{kind}>{escape(cell)}</{kind}>" for cell in cells) + "</tr>"


def page(title, summary, pictures, footing):
    parts = ["<!DOCTYPE html>", "<html lang='en'><head><meta charset='utf-8'>",
             f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style></head><body>",
             f"<h1>{escape(title)}</h1>"]
    parts += [f"<p class='note'>{escape(note)}</p>" for note in table.NOTES]
    for way, rows in summary.items():
        parts += [f"<h2>{escape(TITLES[way])}</h2>", _table(rows), pictures[way]]
    return "\n".join([*parts, f"<p class='note'>{escape(footing)}</p>", "</body></html>", ""])
