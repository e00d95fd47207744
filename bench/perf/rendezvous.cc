#include "rendezvous.h"

#include <cstdint>
#include <thread>
#include <utility>

namespace terse::perf {
namespace {

enum class Purpose : std::uint32_t { kLink = 1, kLifeline = 2 };

// The first bytes on every connection: a stranger on the port is turned away.
struct Hello {
  std::uint64_t magic;
  std::uint32_t processes;
  std::uint32_t process;
  Purpose purpose;
  std::uint32_t reserved;
};

constexpr std::uint64_t kMagic = 0x3166726570657274;  // "treperf1"

// All run the same program, so a blob beyond this is a broken stream, not a blob.
constexpr std::uint64_t kMaxBlob = 1 << 28;

void send_blob(const Socket& to, const std::string& blob, Deadline deadline) {
  const std::uint64_t bytes = blob.size();
  to.send(&bytes, sizeof(bytes), deadline);
  to.send(blob.data(), blob.size(), deadline);
}

std::string receive_blob(const Socket& from, Deadline deadline) {
  std::uint64_t bytes = 0;
  from.receive(&bytes, sizeof(bytes), deadline);
  if (bytes > kMaxBlob) throw std::runtime_error("another process sent a broken message");
  std::string blob(bytes, '\0');
  from.receive(blob.data(), blob.size(), deadline);
  return blob;
}

std::string place(const Meeting& meeting) {
  return meeting.address + ":" + std::to_string(meeting.port);
}

std::string missing(const std::vector<Socket>& links, const std::vector<Socket>& lifelines) {
  std::string names;
  for (std::size_t p = 1; p < links.size(); ++p) {
    if (links[p].descriptor() >= 0 && lifelines[p - 1].descriptor() >= 0) continue;
    names += (names.empty() ? "" : ", ") + std::to_string(p);
  }
  return names;
}

Socket connect(const Meeting& meeting, Purpose purpose, Deadline deadline) {
  for (;;) {
    if (std::optional<Socket> link = try_connect(meeting.address, meeting.port, deadline)) {
      const Hello hello = {kMagic, static_cast<std::uint32_t>(meeting.processes),
                           static_cast<std::uint32_t>(meeting.process), purpose, 0};
      link->send(&hello, sizeof(hello), deadline);
      return std::move(*link);
    }
    if (std::chrono::steady_clock::now() > deadline) throw TimeoutError("connecting: timed out");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

Rendezvous::Rendezvous(const Meeting& meeting) : meeting_(meeting) {
  if (meeting_.processes == 1) return;
  meeting_.process == 0 ? meet_as_first() : meet_as_other();
}

void Rendezvous::meet_as_first() {
  const Deadline deadline = after(meeting_.timeout);
  const Socket listener = listen(meeting_.port, &meeting_.port);
  const auto n = static_cast<std::size_t>(meeting_.processes);
  links_.resize(n);
  lifelines_.resize(n - 1);
  for (std::size_t open = 2 * (n - 1); open > 0;) {
    try {
      Socket connection = accept(listener, deadline);
      Hello hello = {};
      connection.receive(&hello, sizeof(hello), std::min(deadline, after(5)));
      if (hello.magic != kMagic) continue;
      if (hello.processes != n || hello.process == 0 || hello.process >= n) {
        throw std::runtime_error("a process came as number " + std::to_string(hello.process) +
                                 " of " + std::to_string(hello.processes) + ", expected are " +
                                 std::to_string(n) + ": do two runs share port " +
                                 std::to_string(meeting_.port) + "?");
      }
      Socket& place =
          hello.purpose == Purpose::kLink ? links_[hello.process] : lifelines_[hello.process - 1];
      if (place.descriptor() >= 0) {
        throw std::runtime_error("two processes came as number " + std::to_string(hello.process));
      }
      place = std::move(connection);
      --open;
    } catch (const TimeoutError&) {
      if (std::chrono::steady_clock::now() < deadline) continue;  // a silent stranger
      throw TimeoutError("process 0 waited " + std::to_string(static_cast<int>(meeting_.timeout)) +
                         " s at port " + std::to_string(meeting_.port) + "; missing of the " +
                         std::to_string(n) + " processes: " + missing(links_, lifelines_));
    }
  }
  for (std::size_t p = 1; p < n; ++p) send_blob(links_[p], "met", deadline);
}

void Rendezvous::meet_as_other() {
  const Deadline deadline = after(meeting_.timeout);
  try {
    links_.push_back(connect(meeting_, Purpose::kLink, deadline));
    lifelines_.push_back(connect(meeting_, Purpose::kLifeline, deadline));
    receive_blob(links_[0], deadline);
  } catch (const TimeoutError&) {
    throw TimeoutError("process " + std::to_string(meeting_.process) + " waited " +
                       std::to_string(static_cast<int>(meeting_.timeout)) + " s for process 0 at " +
                       place(meeting_) +
                       (links_.empty() ? ": nobody listens there (MASTER_ADDR, MASTER_PORT)"
                                       : ": not all processes came"));
  }
}

std::vector<std::string> Rendezvous::all_gather(const std::string& blob, double timeout) {
  const auto n = static_cast<std::size_t>(meeting_.processes);
  if (n == 1) return {blob};
  const Deadline deadline = after(timeout);
  std::vector<std::string> all(n);
  if (meeting_.process == 0) {
    all[0] = blob;
    for (std::size_t p = 1; p < n; ++p) all[p] = receive_blob(links_[p], deadline);
    for (std::size_t p = 1; p < n; ++p) {
      for (const std::string& item : all) send_blob(links_[p], item, deadline);
    }
  } else {
    send_blob(links_[0], blob, deadline);
    for (std::string& item : all) item = receive_blob(links_[0], deadline);
  }
  return all;
}

}  // namespace terse::perf
