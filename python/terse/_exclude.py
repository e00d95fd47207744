"""Elements that stay exact."""

import ctypes
import operator

from ._communicator import communicator
from ._library import Error, call


class Range(ctypes.Structure):
    """terseRange_t."""
    _fields_ = [("first", ctypes.c_size_t), ("count", ctypes.c_size_t)]


def _number(value):
    """As C takes it: ctypes would cut off what does not fit."""
    value = operator.index(value)
    if not 0 <= value <= ctypes.c_size_t(-1).value:
        raise Error(f"{value} cannot be a number of elements")
    return ctypes.c_size_t(value)


def exclude(comm, elements, ranges):
    """From now on some elements of a message get what native NCCL gives.

    comm      the communicator: an ncclComm_t as an int, or a ProcessGroup
    elements  of the whole message, by which it is known: AllReduce's count; of AllGather and
              ReduceScatter the ranks times the count of each
    ranges    (first, count) each, in elements from the message's beginning, ascending and apart;
              none: nothing of such messages is excluded any more

    All AllReduces, AllGathers and ReduceScatters of so many elements on the communicator are meant,
    of any type; a later call for the same number of elements replaces this one. All ranks make the
    call alike, and it waits for them. Raises Error, and then nothing has changed on any rank: where
    ranges cannot be (ncclInvalidArgument) or ranks differ (ncclInvalidUsage).
    """
    ranges = list(ranges)
    array = (Range * len(ranges))(*(Range(_number(first), _number(count)) for first, count in ranges))
    call("tersePreloadExclude", "terseCommExclude", communicator(comm), _number(elements),
         array, ctypes.c_size_t(len(ranges)))
