"""The summary on the screen."""

from plan import NATIVE, bus_factor, format_size

_FIRST = "{:14} {:8} {:4} {:>8} |{:>9} {:>5} "
_GROUP = "|{:>9} {:>6} {:>7} {:>8} "
_GROUP_WIDTH = len(_GROUP.format("", "", "", ""))


def format_time(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def link_share(result, options):
    """Of the link's rate, by what crossed a host's interface; None where either is not known."""
    if not options.rate or not result.interface_bytes:
        return None
    return result.interface_bytes * 8 / result.seconds / options.rate


def bytes_factor(native, result):
    """How many times fewer bytes crossed the interface."""
    return native.interface_bytes / result.interface_bytes if result.interface_bytes else 0.0


def _group(scheme, *cells):
    return _GROUP.format(*cells).ljust(max(_GROUP_WIDTH, len(scheme) + 3))


def _lines(results, options):
    """Of one lab."""
    schemes = [scheme for scheme in dict.fromkeys(s for by_scheme in results.values()
                                                  for s in by_scheme) if scheme != NATIVE]
    yield _FIRST.format("", "", "", "", "native", "") + "".join(
        "|" + f"{scheme:^{len(_group(scheme, '', '', '', '')) - 1}}" for scheme in schemes)
    yield _FIRST.format("collective", "data", "type", "size", "time", "link") + "".join(
        _group(scheme, "time", "faster", "bytes", "error") for scheme in schemes)
    for case, by_scheme in results.items():
        native = by_scheme[NATIVE]
        share = link_share(native, options)
        line = _FIRST.format(case.collective, case.data, case.dtype, format_size(case.size),
                             format_time(native.seconds), f"{share:.0%}" if share else "-")
        for scheme in schemes:
            result = by_scheme.get(scheme)
            if not result:  # it has ended before
                line += _group(scheme, "-", "-", "-", "-")
                continue
            line += _group(scheme, format_time(result.seconds),
                           f"{native.seconds / result.seconds:.2f}x",
                           f"{bytes_factor(native, result):.2f}x", f"{result.error:.2e}")
        yield line


def choices(results):
    """A line for each case that auto chose for."""
    for case, by_scheme in results.items():
        for scheme, result in by_scheme.items():
            if result.chosen is None:
                continue
            line = f"{case.name}: {scheme} took {result.chosen}"
            if result.predicted:
                line += (f", predicted {format_time(result.predicted)}, "
                         f"{result.predicted / result.seconds:.2f} times what it took")
            yield line


def _share(values, holds):
    return f"{sum(map(holds, values))} of {len(values)}"


def verdict(results):
    """How auto did, over all cases, in three lines; nothing where it was not measured."""
    gains, kept, hits = [], [], []
    for by_scheme in results.values():
        native = by_scheme[NATIVE].seconds
        best = min(r.seconds for r in by_scheme.values() if r.chosen is None)
        for result in by_scheme.values():
            if result.chosen is None:
                continue
            gains.append(native / result.seconds)
            if native / best > 1.3:
                kept.append(best / result.seconds)
            if result.predicted:
                hits.append(result.predicted / result.seconds)
    if gains:
        yield (f"auto: at least 0.97 times as fast as native in "
               f"{_share(gains, lambda gain: gain >= 0.97)} cases, the worst {min(gains):.2f}")
    if kept:
        yield (f"auto: where the best gains over 1.3x, within 10 % of it in "
               f"{_share(kept, lambda share: share >= 0.9)}, the worst {min(kept):.2f}")
    if hits:
        yield (f"auto: predicted within 15 % in {_share(hits, lambda hit: abs(hit - 1) <= 0.15)}, "
               f"from {min(hits):.2f} to {max(hits):.2f} times what it took")


def by_lab(results):
    """{lab: {case: {scheme: result}}}"""
    found = {}
    for case, by_scheme in results.items():
        found.setdefault(case.lab, {})[case] = by_scheme
    return found


def summary(results, options, hardware):
    sections = []
    for lab, of_lab in by_lab(results).items():
        lines = list(_lines(of_lab, options))
        lines.insert(2, "-" * max(len(line) for line in lines))
        sections += [f"{lab}:", *lines, ""]
        if chosen := list(choices(of_lab)):
            sections += [*chosen, ""]
    notes = ["time: one call, out of place. faster: native time over this one's, same run.",
             "bytes: how many times fewer left a host by its network interface. error: relative,",
             "L2, against the exact result. link: what native's bytes take of the link's rate."]
    sections += [*verdict(results), ""] if any(verdict(results)) else []
    if options.loopback:
        notes.append("LOOPBACK: the link is not shaped, so the times say little; the bytes do,")
        notes.append("where hosts have one rank: they are those of all ranks, of one host, too.")
    return "\n".join(sections + notes + [f"on: {hardware}."])


def statistics_check(case, scheme, direct, preloaded, options):
    """The library's statistics against the interface, and both ways into the library."""
    same = direct.checksums == preloaded.checksums
    told = f"Preloaded and direct calls gave {'the same bytes' if same else 'DIFFERENT BYTES'}."
    if not direct.library_bytes:
        return f"{case.lab}, {case.name}, {scheme}: all native. {told}"
    expected = case.size * bus_factor(case.collective, case.lab.ranks)
    excess = direct.interface_bytes / direct.library_bytes - 1
    causes = ["packet headers and acknowledgements"]
    if options.loopback and case.lab.ranks_per_host > 1:
        causes.append("what stays on a host")
    if options.loopback and excess > 0.1:
        causes.append("what others sent")
    return (f"{case.lab}, {case.name}, {scheme}: the library says that a host sent\n"
            f"{direct.library_bytes:,.0f} B a call to others "
            f"({expected / direct.library_bytes:.2f}x fewer than native);\n"
            f"the interface counted {direct.interface_bytes:,.0f} B "
            f"({excess:+.2%}: {', and '.join(causes)}). {told}")
