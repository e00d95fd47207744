"""A self-contained SVG of a way of training: loss against steps, and against time on each link."""

import math
import textwrap
from html import escape

import curves
from plan import NATIVE, TITLES
from table import format_rate, rates

_COLORS = ("#555f6a", "#2f7ed8", "#e08a1e", "#5c9e4a", "#a04a8c", "#c0392b", "#0b3d66", "#8d6e4a",
           "#17a2a2", "#d4a800", "#7f6fd1", "#e377c2", "#6b8e23", "#b05c5c")
_WIDTH, _HEIGHT, _LEFT, _GAP = 560, 330, 66, 84
_LINE, _COLUMN = 18, 230
_FONT = "font-family='Helvetica,Arial,sans-serif'"


def _label(x, y, text, size=12, anchor="middle", more=""):
    return (f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' {more}>"
            f"{escape(text)}</text>")


def nice_step(span, lines=6):
    """A round distance of grid lines: at most so many of them."""
    power = 1e-9
    while power * 10 <= span / lines:
        power *= 10
    return next(step * power for step in (1, 2, 2.5, 5, 10, 20, 25, 50, 100)
                if span / (step * power) <= lines)


class _Panel:
    def __init__(self, x, y, right, low, high):
        self.x, self.y, self.right, self.low, self.high = x, y, right or 1, low, high or 1

    def place(self, x, loss):
        clipped = min(loss, self.high)
        return (self.x + _WIDTH * x / self.right,
                self.y + _HEIGHT * (self.high - clipped) / (self.high - self.low))

    def axes(self, title, unit):
        parts = [_label(self.x + _WIDTH / 2, self.y - 12, title, 14, more="font-weight='bold'"),
                 _label(self.x + _WIDTH / 2, self.y + _HEIGHT + 36, unit, 12, more="fill='#444'")]
        step = nice_step(self.high - self.low)
        loss = step * -(-self.low // step)
        while loss <= self.high:
            _, y = self.place(0, loss)
            parts += [f"<line x1='{self.x}' x2='{self.x + _WIDTH}' y1='{y:.1f}' y2='{y:.1f}' "
                      f"stroke='#dde2e7'/>", _label(self.x - 8, y + 4, f"{loss:g}", 11, "end")]
            loss = round(loss + step, 9)
        step = nice_step(self.right)
        for k in range(int(self.right / step + 1e-9) + 1):
            x, _ = self.place(k * step, self.low)
            parts.append(_label(x, self.y + _HEIGHT + 17, f"{k * step:g}", 11))
        return parts + [f"<rect x='{self.x}' y='{self.y}' width='{_WIDTH}' height='{_HEIGHT}' "
                        f"fill='none' stroke='#889'/>"]

    def curve(self, points, color, native):
        finite = [point for point in points if math.isfinite(point[1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self.place(*p) for p in finite))
        style = "stroke-width='2.6' stroke-dasharray='7 4'" if native else "stroke-width='1.6'"
        return f"<polyline points='{path}' fill='none' stroke='{color}' {style}/>"


def _smooth(curve):
    """Means over neighbours, for batches are small."""
    return [(step, sum(loss for _, loss in curve[max(0, i - 2):i + 3]) /
             len(curve[max(0, i - 2):i + 3])) for i, (step, _) in enumerate(curve)]


def _range(lines):
    losses = sorted(loss for curve in lines.values() for _, loss in curve if math.isfinite(loss))
    if not losses:
        return 0, 1
    low, high = losses[0], losses[min(len(losses) - 1, int(0.97 * len(losses)))]
    return low - 0.05 * (high - low), high if high > low else low + 1


def _panels(rows):
    """(title, unit, {scheme: points})"""
    trained = {scheme: row for scheme, row in rows.items() if "train_curve" in row}
    yield ("training loss by step", "steps",
           {scheme: _smooth(row["train_curve"]) for scheme, row in trained.items()})
    yield ("validation loss by step", "steps",
           {scheme: row["validation_curve"] for scheme, row in trained.items()})
    for rate in rates(rows):
        lines = {scheme: curves.against_time(row["validation_curve"],
                                             row["links"][rate]["step_seconds"])
                 for scheme, row in trained.items() if rate in row.get("links", {})}
        yield (f"validation loss by time, {format_rate(int(rate))} links",
               "seconds: steps times the time of a step, which was measured apart", lines)


def _draw(title, unit, lines, colors, x, y):
    low, high = _range(lines)
    right = max((curve[-1][0] for curve in lines.values() if curve), default=1)
    panel = _Panel(x, y, right, low, high)
    parts = panel.axes(title, unit)
    ordered = sorted(lines, key=lambda scheme: scheme == NATIVE)
    return parts + [panel.curve(lines[scheme], colors[scheme], scheme == NATIVE)
                    for scheme in ordered if lines[scheme]]


def picture(way, rows, heading, footing):
    colors = {scheme: _COLORS[i % len(_COLORS)] for i, scheme in enumerate(rows)}
    width = 2 * (_WIDTH + _GAP) + 20
    columns = (width - _LEFT) // _COLUMN
    legend_lines = -(-len(rows) // columns)
    top = 92 + legend_lines * _LINE
    panels = [panel for panel in _panels(rows) if panel[2]]
    bottom = top + -(-len(panels) // 2) * (_HEIGHT + 92)
    notes = textwrap.wrap(footing, (width - _LEFT - 12) // 7, break_on_hyphens=False)
    height = bottom + len(notes) * _LINE
    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' "
             f"width='{width}' height='{height}' {_FONT}>",
             f"<rect width='{width}' height='{height}' fill='white'/>",
             _label(_LEFT, 32, f"{TITLES[way]}: {heading}", 18, "start", "font-weight='bold'")]
    for i, scheme in enumerate(rows):
        x, y = _LEFT + i % columns * _COLUMN, 58 + i // columns * _LINE
        parts += [f"<rect x='{x}' y='{y - 4}' width='16' height='4' fill='{colors[scheme]}'/>",
                  _label(x + 22, y + 3, scheme, 12, "start")]
    for i, (title, unit, lines) in enumerate(panels):
        parts += _draw(title, unit, lines, colors, _LEFT + i % 2 * (_WIDTH + _GAP),
                       top + i // 2 * (_HEIGHT + 92))
    parts += [_label(_LEFT, bottom + i * _LINE, line, 11, "start", "fill='#666'")
              for i, line in enumerate(notes)]
    return "\n".join(parts + ["</svg>", ""])
