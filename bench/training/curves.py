"""Curves of losses: means over seeds, fewer points, and against time."""


def average(curves):
    """Of lists of the same length, or to the shortest's."""
    return [sum(values) / len(values) for values in zip(*curves)]


def thin(losses, points):
    """[(step, mean loss of the steps since the last point)], about so many."""
    width = max(1, -(-len(losses) // points))
    return [(min(at + width, len(losses)), sum(part) / len(part))
            for at in range(0, len(losses), width) for part in [losses[at:at + width]]]


def against_time(curve, step_seconds):
    return [(step * step_seconds, loss) for step, loss in curve]


def step_of(curve, loss):
    """The step at which a curve of (step, loss) first comes down to a loss, between its points by a
    line; None: it does not."""
    before = None
    for step, value in curve:
        if value <= loss:
            if before is None or before[1] == value:
                return step
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (step - before[0])
        before = (step, value)
    return None


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def at(curve, step):
    """The loss of a curve at a step, between its points by a line."""
    before = curve[0]
    for point in curve:
        if point[0] >= step:
            if point[0] == before[0]:
                return point[1]
            share = (step - before[0]) / (point[0] - before[0])
            return before[1] + share * (point[1] - before[1])
        before = point
    return curve[-1][1]
