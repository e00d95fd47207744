#include "meeting.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "errors.h"

namespace torch_hostnccl {
namespace {

// How many communicators of this key the rank has made already: one that is made later, as after a
// group was destroyed, must not take what the ranks of an earlier one have left in the store.
std::string made(const std::string& key, int rank) { return key + "/made/" + std::to_string(rank); }

std::string arrival(const std::string& key, int rank) {
  return key + "/arrived/" + std::to_string(rank);
}

std::string missing(c10d::Store& store, const std::string& key, int size) {
  std::string ranks;
  for (int rank = 0; rank < size; ++rank) {
    if (store.check({arrival(key, rank)})) continue;
    ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  }
  return ranks;
}

// Not by Store::wait, in which a store holds up other threads: they may be what is waited for.
void wait_for_keys(c10d::Store& store, const std::vector<std::string>& keys, Milliseconds timeout) {
  constexpr Milliseconds kLongest{50};
  const auto limit = std::chrono::steady_clock::now() + timeout;
  for (Milliseconds pause{1}; !store.check(keys); pause = std::min(2 * pause, kLongest)) {
    if (std::chrono::steady_clock::now() >= limit) throw std::runtime_error("timed out");
    std::this_thread::sleep_for(pause);
  }
}

// The library waits for nobody long, so it is called when all have come.
void wait_for_all(c10d::Store& store, const std::string& key, int rank, int size,
                  Milliseconds timeout) {
  std::vector<std::string> keys;
  for (int other = 0; other < size; ++other) keys.push_back(arrival(key, other));
  store.set(keys.at(static_cast<size_t>(rank)), std::vector<uint8_t>{1});
  try {
    wait_for_keys(store, keys, timeout);
  } catch (const std::exception& error) {
    std::string who;
    try {
      who = c10::str("rank(s) ", missing(store, key, size), " did not come");
    } catch (const std::exception&) {
      who = "the store cannot be reached";
    }
    try {
      store.deleteKey(arrival(key, rank));  // nobody must count on it
    } catch (const std::exception&) {       // not every store can
    }
    throw_backend_error(c10::str("[", rank, "] is setting up NCCL communicator '", key, "' of ",
                                 size, " ranks, within ", timeout.count(), " ms: ", who, "\n",
                                 error.what()));
  }
}

ncclUniqueId shared_id(c10d::Store& store, const std::string& key, int rank) {
  ncclUniqueId id;
  if (rank == 0) {
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const auto* bytes = reinterpret_cast<const uint8_t*>(id.internal);
    store.set(key, std::vector<uint8_t>(bytes, bytes + sizeof(id.internal)));
  }
  return id;
}

}  // namespace

std::shared_ptr<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                   const std::string& name, Milliseconds timeout) {
  const std::string place = c10::str(key, "/", store.add(made(key, rank), 0));
  ncclUniqueId id = shared_id(store, place, rank);
  wait_for_all(store, place, rank, size, timeout);
  if (rank != 0) {
    const std::vector<uint8_t> bytes = store.get(place);
    TORCH_CHECK_WITH(DistBackendError, bytes.size() == sizeof(id.internal),
                     "Invalid size for ncclUniqueId");
    std::memcpy(id.internal, bytes.data(), bytes.size());
  }
  auto communicator = std::make_shared<Communicator>(id, rank, size, name);
  store.add(made(key, rank), 1);
  return communicator;
}

}  // namespace torch_hostnccl
