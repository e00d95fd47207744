"""A self-contained SVG: how much faster, and how many bytes, native against the schemes."""

import textwrap
from html import escape

from plan import NATIVE, format_size
from table import by_lab, bytes_factor, format_time

_COLORS = ("#9aa5b1", "#2f7ed8", "#0b3d66", "#e08a1e", "#5c9e4a", "#a04a8c")
_PANEL = {"width": 430, "height": 230, "left": 64, "gap": 78, "top": 104, "row": 322}
_WIDTH = 2 * _PANEL["width"] + _PANEL["gap"] + _PANEL["left"] + 24
_LINE = 18  # from one line of the legend to the next, and of the footing
_FONT = "font-family='Helvetica,Arial,sans-serif'"


def _text(x, y, text, size=12, anchor="middle", more=""):
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' {more}>"
            f"{escape(text)}</text>")


def _nice_step(top):
    """A round distance of grid lines: about five of them."""
    power = 1.0
    while power * 10 <= top / 4:
        power *= 10
    while power > top / 4:
        power /= 10
    return next(step * power for step in (1, 2, 2.5, 5, 10) if top / (step * power) <= 6)


def _axes(x, y, top, title, unit):
    width, height = _PANEL["width"], _PANEL["height"]
    parts = [_text(x + width / 2, y - 14, title, 14, more="font-weight='bold'"),
             f"<text transform='translate({x - 46:.1f} {y + height / 2:.1f}) rotate(-90)' "
             f"font-size='12' text-anchor='middle' fill='#444'>{escape(unit)}</text>"]
    parts.append(_text(x + width / 2, y + height + 49, "size and content of the buffer", 12,
                       more="fill='#444'"))
    step = _nice_step(top)
    for k in range(int(top / step) + 1):
        at = y + height - height * k * step / top
        parts.append(f"<line x1='{x}' x2='{x + width}' y1='{at:.1f}' y2='{at:.1f}' "
                     f"stroke='{'#444' if k == 0 else '#dde2e7'}'/>")
        parts.append(_text(x - 8, at + 4, f"{k * step:g}", 11, "end", "fill='#444'"))
    return parts


def _bars(x, y, top, groups):
    """groups: (label, [(color, value, printed)])."""
    width, height = _PANEL["width"], _PANEL["height"]
    parts = []
    slot = width / len(groups)
    for g, (label, bars) in enumerate(groups):
        bar = min(46, slot * 0.84 / len(bars))
        start = x + g * slot + (slot - bar * len(bars)) / 2
        for b, (color, value, printed) in enumerate(bars):
            tall = height * value / top
            left = start + b * bar
            parts.append(f"<rect x='{left + 1:.1f}' y='{y + height - tall:.1f}' "
                         f"width='{bar - 2:.1f}' height='{tall:.1f}' rx='1.5' fill='{color}'/>")
            parts.append(_text(left + bar / 2, y + height - tall - 4, printed, 10,
                               more="fill='#222'"))
        for line, part in enumerate(label):
            parts.append(_text(x + (g + 0.5) * slot, y + height + 17 + 14 * line, part, 11.5,
                               more="fill='#222'" if line == 0 else "fill='#666'"))
    return parts


def _panel(x, y, title, unit, groups):
    top = 1.13 * max(value for _, bars in groups for _, value, _ in bars)
    return _axes(x, y, top, title, unit) + _bars(x, y, top, groups)


def _row(y, title, cases, color):
    faster, sent = [], []
    for case, by_scheme in cases:
        native = by_scheme[NATIVE]
        schemes = [scheme for scheme in by_scheme if scheme != NATIVE]
        what = "gradient" if case.data == "gradient" else "Gaussian"
        label = (f"{format_size(case.size)} {what}",
                 f"native {format_time(native.seconds)}")
        faster.append((label, [(color[s], native.seconds / by_scheme[s].seconds,
                                f"{native.seconds / by_scheme[s].seconds:.2f}") for s in schemes]))
        label = (label[0], f"native {native.interface_bytes / 1e6:.3g} MB")
        sent.append((label, [(color[s], 100 / bytes_factor(native, by_scheme[s]),
                              f"{100 / bytes_factor(native, by_scheme[s]):.0f}")
                             for s in schemes]))
    left = _PANEL["left"]
    right = left + _PANEL["width"] + _PANEL["gap"]
    return (_panel(left, y, f"{title}: speed-up over native", "times faster (higher is better)",
                   faster) +
            _panel(right, y, f"{title}: bytes out of a host",
                   "% of native (lower is better)", sent))


def _legend(color):
    """A line for as many schemes as have room in it: the parts, and the lines' number."""
    parts, x, line = [], _PANEL["left"], 0
    for scheme in color:
        width = 19 + 9 * len(scheme) + 22
        if x > _PANEL["left"] and x + width > _WIDTH:
            x, line = _PANEL["left"], line + 1
        y = 46 + line * _LINE
        parts.append(f"<rect x='{x}' y='{y}' width='13' height='13' rx='2' fill='{color[scheme]}'/>")
        parts.append(_text(x + 19, y + 11, scheme, 13, "start"))
        x += width
    return parts, line + 1


def _footing(text):
    """In lines that have room also in the widest of the fonts, at 7 units a character."""
    return textwrap.wrap(text, (_WIDTH - _PANEL["left"] - 12) // 7, break_on_hyphens=False)


def _rows(results):
    """{title: [(case, {scheme: result})]}, by lab and data type; where there is what to compare."""
    found = {}
    for lab, of_lab in by_lab(results).items():
        for case, by_scheme in of_lab.items():
            if len(by_scheme) > 1:
                found.setdefault(f"{lab}, {case.dtype}", []).append((case, by_scheme))
    return found


def plot(results, heading, footing):
    """The first collective's results, a row of two panels for each lab and data type."""
    collective = next(iter(results)).collective
    rows = _rows({c: r for c, r in results.items() if c.collective == collective})
    bars = dict.fromkeys(scheme for by_scheme in results.values() for scheme in by_scheme)
    color = {scheme: _COLORS[i % len(_COLORS)] for i, scheme in enumerate(bars)}
    legend, legend_lines = _legend(color)
    notes = _footing(footing)
    top = _PANEL["top"] + (legend_lines - 1) * _LINE
    bottom = top + _PANEL["row"] * len(rows)
    height = bottom + len(notes) * _LINE
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' "
             f"width='{_WIDTH}' height='{height}' {_FONT}>",
             f"<rect width='{_WIDTH}' height='{height}' fill='white'/>",
             _text(_PANEL["left"], 32, f"{collective}, {heading}", 18, "start",
                   "font-weight='bold'"), *legend]
    for i, (title, cases) in enumerate(rows.items()):
        parts += _row(top + i * _PANEL["row"], title, cases, color)
    for i, line in enumerate(notes):
        parts.append(_text(_PANEL["left"], bottom + i * _LINE + 6, line, 11, "start",
                           "fill='#666'"))
    return "\n".join(parts + ["</svg>", ""])
