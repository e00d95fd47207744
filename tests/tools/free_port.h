// A port for a test.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

namespace terse::test {

// Of the loopback interface, that nobody listens on; below those that the kernel gives to who asks
// for any, so that whoever else runs at the same time does not get it before it is used.
inline int free_port() {
  std::random_device random;
  for (;;) {
    const int port = std::uniform_int_distribution(10000, 29999)(random);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<in_port_t>(port));
    const int probe = socket(AF_INET, SOCK_STREAM, 0);
    const bool is_free = bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(probe);
    if (is_free) return port;
  }
}

}  // namespace terse::test
