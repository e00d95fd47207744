"""What a communicator has counted on this rank."""

import collections
import ctypes

from ._communicator import communicator
from ._library import call

SIZE, REAL = ctypes.c_size_t, ctypes.c_double

# Why a call went to NCCL as it is: TERSE_BYPASS_..., in order.
BYPASSES = ("off", "dtype", "op", "small", "one_rank", "fallback", "link", "collective", "auto",
            "delta", "exact", "config", "observed", "slow")
# Why an AllGather of differences went in full: TERSE_FULL_..., in order.
IN_FULL = ("first", "others", "every", "memory", "nonfinite")

# terseStats_t behind its size. New fields are appended, and a library that is older leaves them 0.
FIELDS = [
    ("calls", SIZE), ("raw_bytes", SIZE), ("wire_bytes", SIZE), ("native_bytes", SIZE),
    ("bypasses", SIZE * 16), ("scratch_bytes", SIZE), ("timed_calls", SIZE), ("total_ns", SIZE),
    ("encode_ns", SIZE), ("communicate_ns", SIZE), ("decode_ns", SIZE), ("verified_calls", SIZE),
    ("relative_error", REAL), ("largest_error", REAL), ("lost_nonfinite", SIZE),
    ("spread_nonfinite", SIZE), ("median_relative_error", REAL), ("p99_relative_error", REAL),
    ("worst_relative_error", REAL), ("nodes", SIZE), ("raw_off_node_bytes", SIZE),
    ("wire_off_node_bytes", SIZE), ("native_off_node_bytes", SIZE), ("state_bytes", SIZE),
    ("delta_calls", SIZE), ("delta_unchanged", SIZE), ("delta_full", SIZE * 8),
    ("fused_calls", SIZE), ("fused_ns", SIZE), ("window_bytes", SIZE), ("pods", SIZE),
    ("raw_off_pod_bytes", SIZE), ("wire_off_pod_bytes", SIZE), ("native_off_pod_bytes", SIZE),
]


class Struct(ctypes.Structure):
    """terseStats_t."""
    _fields_ = [("size", SIZE), *FIELDS]


class Stats(collections.namedtuple("Stats", [name for name, _ in FIELDS])):
    """Counters of a communicator on this rank, since its first call.

    calls           that were compressed; raw_bytes: what they would have sent to other ranks as they
                    are; wire_bytes: what they sent; scratch_bytes, state_bytes: memory held now
    bypasses        calls that went to NCCL as they are, by reason (BYPASSES); native_bytes: what
                    they sent
    ..._ns          nanoseconds, sums over timed_calls (TERSE_METER)
    ..._error       relative errors of verified_calls (TERSE_VERIFY); largest_error is a magnitude
    ..._nonfinite   elements of those calls that only one of the two results has as NaN or infinity
    delta_...       AllGathers with delta=: calls of differences; unchanged, of nothing, for no shard
                    had changed; full, by reason (IN_FULL)
    fused_calls     of the calls, those of one step in memory that the ranks of a node share;
                    window_bytes: of scratch_bytes, that memory
    ..._off_node_bytes   of the bytes above, those that leave this rank's node; nodes: of the ranks
    ..._off_pod_bytes    of these, those that leave its pod; pods: of the nodes, 0: there are none

    terse.h has every word of it.
    """
    __slots__ = ()


def stats(comm):
    """The Stats of a communicator: an ncclComm_t as an int, or a ProcessGroup. All zeros where terse
    has done nothing on it. Waits for nobody. Raises Error."""
    struct = Struct(size=ctypes.sizeof(Struct))
    call("tersePreloadStats", "terseCommGetStats", communicator(comm), ctypes.byref(struct))
    counted = {name: getattr(struct, name) for name, _ in FIELDS}
    counted["bypasses"] = dict(zip(BYPASSES, struct.bypasses))
    counted["delta_full"] = dict(zip(IN_FULL, struct.delta_full))
    return Stats(**counted)
