#include "lifeline.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace terse::perf {
namespace {

constexpr char kGoodbye = 'B';
constexpr double kGoodbyeSeconds = 5;

}  // namespace

Lifeline::Lifeline(int process, std::vector<Socket> peers,
                   std::function<void(const std::string&)> on_loss)
    : process_(process), peers_(std::move(peers)), on_loss_(std::move(on_loss)) {
  if (!peers_.empty()) watcher_ = std::thread([this] { watch(); });
}

Lifeline::~Lifeline() {
  if (!watcher_.joinable()) return;
  for (const Socket& peer : peers_) {
    try {
      peer.send(&kGoodbye, 1, after(kGoodbyeSeconds));
    } catch (const std::runtime_error&) {
      // It is gone already; the watcher has judged how.
    }
    // From here on the peer reads "end of stream" after the goodbye.
    shutdown(peer.descriptor(), SHUT_WR);
  }
  watcher_.join();
}

void Lifeline::watch() {
  std::vector<pollfd> open;
  for (const Socket& peer : peers_) open.push_back({peer.descriptor(), POLLIN, 0});
  while (!open.empty()) {
    if (poll(open.data(), open.size(), -1) < 0 && errno != EINTR) return;
    for (pollfd& entry : open) {
      if (entry.revents == 0) continue;
      char byte = 0;
      const ssize_t got = recv(entry.fd, &byte, 1, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got != 1 || byte != kGoodbye) {
        const auto at = std::find_if(peers_.begin(), peers_.end(), [&](const Socket& peer) {
          return peer.descriptor() == entry.fd;
        });
        const auto index = process_ == 0 ? at - peers_.begin() + 1 : 0;
        on_loss_("process " + std::to_string(index) + " has ended early");
        return;
      }
      entry.fd = -1;  // said goodbye
    }
    std::erase_if(open, [](const pollfd& entry) { return entry.fd < 0; });
  }
}

}  // namespace terse::perf
