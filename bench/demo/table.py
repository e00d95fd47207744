"""The summary on the screen."""

from plan import NATIVE, bus_factor, format_size

_FIRST = "{:14} {:8} {:4} {:>8} |{:>9} {:>5} "
_GROUP = "|{:>9} {:>6} {:>7} {:>8} "


def format_time(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def link_share(case, result, options):
    return result.busbw * 8 / options.rate if options.rate else None


def bytes_factor(native, result):
    """How many times fewer bytes crossed the interface."""
    return native.interface_bytes / result.interface_bytes if result.interface_bytes else 0.0


def _lines(results, schemes, options):
    yield _FIRST.format("", "", "", "", "native", "") + "".join(
        _GROUP.format("", scheme, "", "") for scheme in schemes)
    yield _FIRST.format("collective", "data", "type", "size", "time", "link") + "".join(
        _GROUP.format("time", "faster", "bytes", "error") for _ in schemes)
    for case, by_scheme in results.items():
        native = by_scheme[NATIVE]
        share = link_share(case, native, options)
        line = _FIRST.format(case.collective, case.data, case.dtype, format_size(case.size),
                             format_time(native.seconds), f"{share:.0%}" if share else "-")
        for scheme in schemes:
            result = by_scheme[scheme]
            line += _GROUP.format(format_time(result.seconds),
                                  f"{native.seconds / result.seconds:.2f}x",
                                  f"{bytes_factor(native, result):.2f}x", f"{result.error:.2e}")
        yield line


def summary(results, schemes, options, hardware):
    lines = list(_lines(results, schemes, options))
    lines.insert(2, "-" * max(len(line) for line in lines))
    notes = ["time: one call, out of place. faster: native time over this one's, same run.",
             "bytes: how many times fewer crossed the network interface. error: relative, L2,",
             "against the exact result. link: native's share of the link's rate."]
    if options.loopback:
        notes.append("LOOPBACK: the link is not shaped, so the times say little; the bytes do.")
    return "\n".join(lines + notes + [f"on: {hardware}."])


def statistics_check(case, scheme, direct, preloaded, options):
    """The library's statistics against the interface, and both ways into the library."""
    same = direct.checksums == preloaded.checksums
    expected = case.size * bus_factor(case.collective, options.hosts)
    excess = direct.interface_bytes / direct.library_bytes - 1
    return (f"{case.name}, {scheme}: the library says it sent "
            f"{direct.library_bytes:,.0f} B a call and rank "
            f"({expected / direct.library_bytes:.2f}x fewer than native);\n"
            f"the interface counted {direct.interface_bytes:,.0f} B "
            f"({excess:+.2%}: packet headers and acknowledgements). "
            f"Preloaded and direct calls gave {'the same bytes' if same else 'DIFFERENT BYTES'}.")
