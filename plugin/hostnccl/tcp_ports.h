// The TCP ports at which a UCX worker listens, and who may come in.
//
// UCX takes whoever connects for a rank: a public constant is all that it asks for, and the bytes
// that follow may end the process. So a worker reads nothing before its ranks have named their
// connections to each other over the bootstrap, which knows them by the communicator's secret; then
// its ports are closed, and connections of strangers are ended.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "socket.h"

namespace hostnccl {

// End of a connection. Plain bytes: it travels between ranks. IPv4 as IPv6 writes it.
struct Endpoint {
  uint8_t host[16] = {};
  uint16_t port = 0;  // as in packets
  auto operator<=>(const Endpoint&) const = default;
};

struct Connection {
  Endpoint from;
  Endpoint to;
  auto operator<=>(const Connection&) const = default;
};

class TcpPorts {
 public:
  // Calls `open`, which makes a worker and returns its address, and finds the ports that this has
  // opened.
  explicit TcpPorts(const std::function<std::string()>& open);

  // Address at which the worker listens, for the other ranks.
  std::string text() const;
  // The connections that this process has made to these ports of the ranks (text()), to be sent to
  // the others.
  static std::string connections_to(const std::vector<std::string>& ports);

  // `connections`: what connections_to said on each rank. Returns the first rank whose connection
  // has not arrived yet, or -1: all have.
  int missing(const std::vector<std::string>& connections) const;
  // Ends what came from anybody else, for good. Before the worker is moved along.
  void close_to_strangers(const std::vector<std::string>& connections);

 private:
  struct Port {
    int fd;
    Endpoint at;
  };
  std::set<Endpoint> own() const;
  std::vector<Port> ports_;
};

}  // namespace hostnccl
