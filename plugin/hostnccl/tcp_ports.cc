#include "tcp_ports.h"

#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <ucs/type/status.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>

#include "fork.h"
#include "nccl_log.h"

// UCX's own, exported but in none of its installed headers: its thread calls the descriptor's
// handler no more, and does not run it any longer.
extern "C" ucs_status_t ucs_async_remove_handler(int id, int is_sync);

namespace hostnccl {
namespace {

static_assert(std::has_unique_object_representations_v<Connection>);

Endpoint endpoint(const Address& address) {
  Endpoint end;
  if (address.any.sa_family == AF_INET6) {
    std::memcpy(end.host, &address.v6.sin6_addr, sizeof(end.host));
    end.port = address.v6.sin6_port;
  } else {
    end.host[10] = end.host[11] = 0xff;
    std::memcpy(end.host + 12, &address.v4.sin_addr, 4);
    end.port = address.v4.sin_port;
  }
  return end;
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);  // getsockname, getpeername

std::optional<Endpoint> end_of(int fd, NameOf name_of) {
  Address address;
  socklen_t size = sizeof(address.v6);
  if (name_of(fd, &address.any, &size) != 0 || !address.valid()) return {};
  return endpoint(address);
}

int option(int fd, int name) {
  int value = 0;
  socklen_t size = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, name, &value, &size) == 0 ? value : 0;
}

// Calls `visit(fd)` for each descriptor of this process.
template <class Visit>
void for_each_descriptor(Visit&& visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
  if (directory == nullptr) fail_system("list the process's descriptors");
  while (const dirent* entry = readdir(directory.get())) {
    if (entry->d_name[0] != '.') visit(std::atoi(entry->d_name));
  }
}

// Calls `visit(fd, connection)` for each TCP connection of this process, as seen from here: from
// the other side to ours.
template <class Visit>
void for_each_connection(Visit&& visit) {
  for_each_descriptor([&](int fd) {
    const auto other = end_of(fd, &getpeername);
    const auto own = other ? end_of(fd, &getsockname) : std::nullopt;
    if (own && option(fd, SO_TYPE) == SOCK_STREAM) visit(fd, Connection{*other, *own});
  });
}

// Inodes of listening sockets, by descriptor; the inode tells a socket from a later one.
std::map<int, ino_t> listening_sockets() {
  std::map<int, ino_t> found;
  for_each_descriptor([&](int fd) {
    struct stat info {};
    if (option(fd, SO_ACCEPTCONN) != 0 && fstat(fd, &info) == 0) found[fd] = info.st_ino;
  });
  return found;
}

template <class Record>
std::string packed(const std::vector<Record>& records) {
  return {reinterpret_cast<const char*>(records.data()), records.size() * sizeof(Record)};
}

template <class Record>
std::vector<Record> unpacked(const std::string& text) {
  require(text.size() % sizeof(Record) == 0, ncclInternalError, "malformed list of connections");
  std::vector<Record> records(text.size() / sizeof(Record));
  std::memcpy(records.data(), text.data(), text.size());
  return records;
}

// Ends a connection, from which nothing more may be read, either.
void end_connection(int fd) {
  shutdown(fd, SHUT_RDWR);
  char dropped[4096];
  while (recv(fd, dropped, sizeof(dropped), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

struct Opening {
  std::mutex mutex;
  // A worker is being made: UCX lets nobody in meanwhile, for it would read from who is there.
  std::atomic<bool> goes_on{false};
};

TcpPorts::TcpPorts(const std::function<std::string()>& open) {
  Opening& opening = of_process<Opening>();
  const std::lock_guard lock(opening.mutex);  // one worker at a time, for the difference
  const std::map<int, ino_t> before = listening_sockets();
  opening.goes_on = true;
  const std::shared_ptr<void> end(nullptr, [&](void*) { opening.goes_on = false; });
  const std::string address = open();
  for (const auto& [fd, inode] : listening_sockets()) {
    const auto known = before.find(fd);
    if (known != before.end() && known->second == inode) continue;
    // Another thread may have begun to listen meanwhile: ours reuse addresses, UCX's do not, and
    // its address has their port.
    const auto at = end_of(fd, &getsockname);
    if (!at || option(fd, SO_REUSEADDR) != 0) continue;
    const std::string port(reinterpret_cast<const char*>(&at->port), sizeof(at->port));
    if (address.find(port) != std::string::npos) ports_.push_back({fd, *at});
  }
}

std::string TcpPorts::text() const {
  std::vector<Endpoint> ends;
  for (const Port& port : ports_) ends.push_back(port.at);
  return packed(ends);
}

std::string TcpPorts::connections_to(const std::vector<std::string>& ports) {
  std::set<Endpoint> all;
  for (const std::string& text : ports) {
    for (const Endpoint& end : unpacked<Endpoint>(text)) all.insert(end);
  }
  std::vector<Connection> made;
  for_each_connection([&](int, const Connection& seen) {
    if (all.contains(seen.from)) made.push_back({seen.to, seen.from});
  });
  return packed(made);
}

std::set<Endpoint> TcpPorts::own() const {
  std::set<Endpoint> own;
  for (const Port& port : ports_) own.insert(port.at);
  return own;
}

int TcpPorts::missing(const std::vector<std::string>& connections) const {
  if (ports_.empty()) return -1;
  std::set<Connection> here;
  for_each_connection([&](int, const Connection& seen) { here.insert(seen); });
  const std::set<Endpoint> own = this->own();
  for (size_t rank = 0; rank < connections.size(); ++rank) {
    for (const Connection& made : unpacked<Connection>(connections[rank])) {
      if (own.contains(made.to) && !here.contains(made)) return static_cast<int>(rank);
    }
  }
  return -1;
}

void TcpPorts::close_to_strangers(const std::vector<std::string>& connections) {
  if (ports_.empty()) return;
  // Closes the ports: from here on UCX accepts nobody, nor is about to.
  for (const Port& port : ports_) {
    ucs_async_remove_handler(port.fd, 1);
    shutdown(port.fd, SHUT_RDWR);
  }
  std::set<Connection> known;
  for (const std::string& text : connections) {
    for (const Connection& made : unpacked<Connection>(text)) known.insert(made);
  }
  const std::set<Endpoint> own = this->own();
  for_each_connection([&](int fd, const Connection& seen) {
    if (!own.contains(seen.to) || known.contains(seen)) return;
    log(LogLevel::kInfo, kNoRank, "transport: ended the connection of a stranger");
    end_connection(fd);
  });
}

}  // namespace hostnccl

// Replaces UCX's own function, with which its thread lets connections in: a failure would close the
// port for good, and a later call may succeed.
extern "C" [[gnu::visibility("default")]] ucs_status_t ucs_socket_accept(int fd, sockaddr* address,
                                                                         socklen_t* size,
                                                                         int* accepted) {
  *accepted = -1;
  if (!hostnccl::of_process<hostnccl::Opening>().goes_on) *accepted = accept(fd, address, size);
  if (*accepted >= 0) return UCS_OK;
  if (errno != EAGAIN) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return UCS_ERR_NO_PROGRESS;
}
