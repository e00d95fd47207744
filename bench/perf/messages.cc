#include "messages.h"

#include <bit>

#include "traffic.h"

namespace terse::perf {
namespace {

Message sent(int peer, std::size_t first, std::size_t count) {
  return {true, peer, false, first, count};
}
Message received(int peer, std::size_t first, std::size_t count) {
  return {false, peer, false, first, count};
}

std::size_t share_at(int rank, const Call& c) { return static_cast<std::size_t>(rank) * c.count(); }

ncclResult_t start_group(const Scheme* scheme) {
  return scheme != nullptr ? scheme->api().group_start() : ncclGroupStart();
}

ncclResult_t end_group(const Scheme* scheme) {
  return scheme != nullptr ? scheme->api().group_end() : ncclGroupEnd();
}

ncclResult_t post(const Message& m, const Call& c, const Scheme* scheme) {
  const std::size_t offset = m.first * c.element_bytes;
  const char* const send = (m.from_receive ? c.receive : c.send) + offset;
  char* const receive = c.receive + offset;
  if (scheme == nullptr) {
    return m.sends ? ncclSend(send, m.count, c.type, m.peer, c.comm, c.stream)
                   : ncclRecv(receive, m.count, c.type, m.peer, c.comm, c.stream);
  }
  const TerseApi& api = scheme->api();
  return m.sends ? api.send(send, m.count, c.type, m.peer, scheme->get(), c.comm, c.stream)
                 : api.recv(receive, m.count, c.type, m.peer, scheme->get(), c.comm, c.stream);
}

}  // namespace

Messages to_the_next(const Call& c) {
  const auto [rank, nranks, root, in_place] = c.seat;
  return {sent((rank + 1) % nranks, 0, c.count()),
          received((rank + nranks - 1) % nranks, 0, c.count())};
}

Messages to_each(const Call& c) {
  Messages all;
  for (int peer = 0; peer < c.seat.nranks; ++peer) {
    all.push_back(sent(peer, share_at(peer, c), c.count()));
    all.push_back(received(peer, share_at(peer, c), c.count()));
  }
  return all;
}

Messages to_each_its_count(const Call& c) {
  const Traffic& counts = traffic();
  const auto [rank, nranks, root, in_place] = c.seat;
  Messages all;
  std::size_t send_at = 0;
  std::size_t receive_at = 0;
  for (int peer = 0; peer < nranks; ++peer) {
    const std::size_t out = counts.count(rank, peer, nranks, c.shape);
    const std::size_t in = counts.count(peer, rank, nranks, c.shape);
    if (out > 0) all.push_back(sent(peer, send_at, out));
    if (in > 0) all.push_back(received(peer, receive_at, in));
    send_at += out;
    receive_at += in;
  }
  return all;
}

Messages to_the_root(const Call& c) {
  Messages all = {sent(c.seat.root, 0, c.count())};
  for (int peer = 0; c.seat.is_root() && peer < c.seat.nranks; ++peer) {
    all.push_back(received(peer, share_at(peer, c), c.count()));
  }
  return all;
}

Messages from_the_root(const Call& c) {
  Messages all = {received(c.seat.root, 0, c.count())};
  for (int peer = 0; c.seat.is_root() && peer < c.seat.nranks; ++peer) {
    all.push_back(sent(peer, share_at(peer, c), c.count()));
  }
  return all;
}

Messages along_a_dimension(const Call& c) {
  const int rank = c.seat.rank;
  if (c.step == 0) {
    if (c.seat.in_place) return {};
    return {sent(rank, 0, c.count()), received(rank, share_at(rank, c), c.count())};
  }
  const int mask = 1 << (c.step - 1);
  const int mine = rank & ~(mask - 1);  // the first of the shares that are here already
  const std::size_t count = c.count() * static_cast<std::size_t>(mask);
  return {{true, rank ^ mask, true, share_at(mine, c), count},
          received(rank ^ mask, share_at(mine ^ mask, c), count)};
}

int hypercube_steps(int nranks) { return std::bit_width(static_cast<unsigned>(nranks)); }

ncclResult_t exchange(const Messages& messages, const Call& call, const Scheme* scheme) {
  if (messages.empty()) return ncclSuccess;
  ncclResult_t result = start_group(scheme);
  for (const Message& message : messages) {
    if (result == ncclSuccess) result = post(message, call, scheme);
  }
  // Ended in any case; the first error is the one.
  const ncclResult_t ended = end_group(scheme);
  return result != ncclSuccess ? result : ended;
}

}  // namespace terse::perf
