// The data transport: tagged messages between the ranks of one communicator, over UCX.
//
// One UCX worker per communicator, used by its thread alone. Nothing here blocks: progress and
// waiting are the channel's business.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "failure.h"
#include "tcp_ports.h"

namespace hostnccl {

// A message on its way. Dropping an unfinished one cancels it as far as UCX can; the buffer is free
// only after Transport::close.
class Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept { *this = std::move(other); }
  Request& operator=(Request&& other) noexcept;
  ~Request();

  // True once finished, and from then on. Throws what went wrong: a lost peer, or a message of
  // another size or digest than the one expected.
  bool test();
  // Returns true if it has ended, however it did.
  bool over();

 private:
  friend class Transport;
  ucs_status_t poll(ucp_tag_recv_info_t* info);
  void check(ucs_status_t status, const ucp_tag_recv_info_t* info) const;

  void* handle_ = nullptr;  // UCX's; null: finished
  ucp_worker_h worker_ = nullptr;
  bool receives_ = false;
  uint64_t tag_ = 0;
  size_t bytes_ = 0;
};

class Transport {
 public:
  // `device`: the network device for the data of ranks that share no faster way.
  Transport(int rank, const std::string& device);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  std::string address() const;
  // `addresses`: of all ranks. Returns the connections that were made, to be sent to all ranks.
  //
  // A peer that goes meanwhile can leave UCX 1.13's endpoint in a state that aborts the process (an
  // assertion in tcp_ep.c) at the first progress(): that must wait until all peers are known to
  // have been there throughout.
  std::string connect(const std::vector<std::string>& addresses);
  // Lets in these connections of the ranks, which connect() returned there, and nobody else.
  // Returns the first rank whose connection has not come yet: then it is to be called again, or -1.
  // Before the first progress().
  int admit(const std::vector<std::string>& connections);

  // The receiver matches the bits of kMatched; the rest is compared when the message has arrived.
  static constexpr uint64_t kDigestBits = 24;
  static constexpr uint64_t kMatched = ~((uint64_t{1} << kDigestBits) - 1);
  // `until_taken`: finishes only when the peer has asked for the message.
  Request send(int peer, uint64_t tag, const void* data, size_t bytes, bool until_taken);
  // `matched`: the bits that count; requests for whole tags do not slow the search for others.
  Request receive(uint64_t tag, uint64_t matched, void* data, size_t bytes);

  bool progress() {
    moved_ = true;
    return ucp_worker_progress(worker_) != 0;
  }
  bool arm() { return ucp_worker_arm(worker_) == UCS_OK; }  // false: there is progress to make
  int event_fd() const { return event_fd_; }

  // Peers whose connection UCX lost, and when it said so.
  struct Lost {
    int rank;
    std::chrono::steady_clock::time_point since;
  };
  const std::vector<Lost>& lost_peers() const { return lost_peers_; }

  // No buffer given to send or receive is touched after this. What has not arrived may be lost.
  void close();

 private:
  struct Peer {
    Transport* transport = nullptr;
    int rank = 0;
    ucp_ep_h endpoint = nullptr;
    bool lost = false;
  };
  std::string open_worker();
  void connect(const std::string& address);
  void close_worker();
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status);

  const int rank_;
  std::shared_ptr<ucp_context> context_;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  bool moved_ = false;
  std::vector<Lost> lost_peers_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::unique_ptr<TcpPorts> ports_;
  std::string address_;  // UCX's
};

}  // namespace hostnccl
