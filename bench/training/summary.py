"""All runs in short: for each way and scheme losses over seeds, what they are beside native's of
the same seeds, and the time that they take on each link."""

import curves
import spread
from plan import NATIVE

_POINTS = 120  # of a curve of training losses
_TARGET = 0.8  # of native's steps: the loss that it has then is what others must come to


def summarize(runs, timings):
    """[(job, result)] of trainings and of timings -> {way: {scheme: {...}}}"""
    found = {}
    for way in dict.fromkeys(job["way"] for job, _ in runs + timings):
        schemes = {}
        for job, result in runs:
            if job["way"] == way:
                schemes.setdefault(job["scheme"], {})[job["seed"]] = result
        natives = schemes.get(NATIVE, {})
        rows = {scheme: _losses(_shared(by_seed, natives or by_seed))
                for scheme, by_seed in schemes.items()}
        for scheme, row in rows.items():
            if row and natives:
                row.update(_beside(row, rows[NATIVE]))
                row.update(_to_target(schemes[scheme], natives))
        for job, result in timings:
            if job["way"] == way:
                _add_time(rows.setdefault(job["scheme"], {}), job, result)
        _compare_times(rows)
        found[way] = rows
    return found


def _shared(by_seed, others):
    """The runs of those seeds that others have, too: means over other seeds say nothing beside theirs."""
    return {seed: result for seed, result in by_seed.items() if seed in others}


def _last(result):
    """The training loss at the end: the mean of the last twentieth of the steps."""
    losses = result["losses"]
    return spread.mean(losses[-max(1, len(losses) // 20):])


def _losses(by_seed):
    if not by_seed:
        return {}
    finals = {seed: result["final_validation"] for seed, result in by_seed.items()}
    lasts = {seed: _last(result) for seed, result in by_seed.items()}
    results = list(by_seed.values())
    row = {"steps": min(len(result["losses"]) for result in results),
           "final_validation": finals, "final_train": lasts,
           "validation": spread.mean(list(finals.values())),
           "validation_interval": spread.interval(list(finals.values())),
           "train": spread.mean(list(lasts.values())),
           "train_curve": curves.thin(curves.average([r["losses"] for r in results]), _POINTS),
           "validation_curve": _mean_curve([result["validation"] for result in results]),
           "replicas_same": all(result["replicas"]["same"] for result in results)}
    if results[0].get("health"):
        row["health"] = results[0]["health"]  # rank 0's, of the first seed
    if "terse" in results[0]:
        row["compressed_calls"] = sum(result["terse"]["calls"] for result in results)
        row["compressed"] = results[0]["terse"]["schemes"]
        row["bypasses"] = results[0]["terse"]["bypasses"]
    return row


def _mean_curve(some):
    return [(points[0][0], spread.mean([loss for _, loss in points])) for points in zip(*some)]


def _beside(row, native):
    pairs = spread.paired(row["final_validation"], native["final_validation"])
    trains = spread.paired(row["final_train"], native["final_train"])
    return {"over_native": spread.mean(pairs), "over_native_interval": spread.interval(pairs),
            "train_over_native": spread.mean(trains)} if pairs else {}


def _to_target(by_seed, natives):
    """The loss that native has after most of its steps, and the steps that it takes both to get there;
    on the mean of the seeds that both have."""
    own, native = (_mean_curve([result["validation"] for result in some.values()])
                   for some in (_shared(by_seed, natives), _shared(natives, by_seed)))
    if not native:
        return {}
    target = curves.at(native, _TARGET * native[-1][0])
    return {"target": target, "steps_to_target": curves.step_of(own, target),
            "native_steps_to_target": curves.step_of(native, target)}


def _add_time(row, job, result):
    seconds = result["step_seconds"]
    row.setdefault("links", {})[str(job["rate"])] = {
        "step_seconds": curves.median(seconds) if job["way"] != "diloco" else spread.mean(seconds),
        "fastest_step": min(seconds), "slowest_step": max(seconds),
        "sent_bytes": result["sent_bytes"], "load": result["load"]}


def _compare_times(rows):
    native = rows.get(NATIVE, {})
    for row in rows.values():
        for rate, link in row.get("links", {}).items():
            beside = native.get("links", {}).get(rate)
            if beside:
                link["faster"] = beside["step_seconds"] / link["step_seconds"]
                if link["sent_bytes"]:  # none leaves a host that has no others beside it
                    link["bytes_factor"] = beside["sent_bytes"] / link["sent_bytes"]
            step = row.get("steps_to_target")
            if step is not None and beside:
                link["seconds_to_target"] = step * link["step_seconds"]
                link["faster_to_target"] = (row["native_steps_to_target"] * beside["step_seconds"]
                                            / link["seconds_to_target"])
