"""A message, and the places in it."""

import collections


class Message(collections.namedtuple("Message", ["elements", "ranges", "label", "group"])):
    """A message of which some elements are to stay exact.

    elements  of the whole message, as terse.exclude counts them
    ranges    [(first, count)], in elements, ascending, not empty, and with others between them
    label     collective and module, for people
    group     the torch.distributed.ProcessGroup on which it is sent
    """
    __slots__ = ()


def joined(ranges):
    """The same elements as ranges that ascend, are apart and not empty."""
    apart = []
    for first, count in sorted(ranges):
        if count == 0:
            continue
        if apart and first <= sum(apart[-1]):
            begin, before = apart.pop()
            apart.append((begin, max(before, first + count - begin)))
        else:
            apart.append((first, count))
    return apart


def sharded(pieces, ranks):
    """Elements and ranges of a message in which each rank has a shard, and all shards have pieces of
    the same parameters: (elements in a shard, whether they stay exact) each, in order."""
    offset, exact = 0, []
    for count, stays in pieces:
        if stays:
            exact.append((offset, count))
        offset += count
    whole = [(rank * offset + first, count) for rank in range(ranks) for first, count in exact]
    return ranks * offset, joined(whole)


def part(ranges, first, count):
    """What of the ranges lies in `count` elements from `first` on, counted from there."""
    cut = ((max(begin, first), min(begin + length, first + count)) for begin, length in ranges)
    return [(begin - first, end - begin) for begin, end in cut if begin < end]


def united(messages, communicator):
    """One message for each communicator(group) and number of elements, with the ranges of all such:
    they cannot be told apart."""
    together = {}
    for message in messages:
        together.setdefault((communicator(message.group), message.elements), []).append(message)
    return [Message(same[0].elements, joined(place for each in same for place in each.ranges),
                    ", ".join(dict.fromkeys(each.label for each in same)), same[0].group)
            for same in together.values()]
