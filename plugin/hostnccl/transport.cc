#include "transport.h"

#include <cstring>
#include <utility>

#include "nccl_log.h"
#include "ucx.h"

namespace hostnccl {

// ---- Request ----

Request& Request::operator=(Request&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(worker_, other.worker_);
  std::swap(receives_, other.receives_);
  std::swap(tag_, other.tag_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Request::~Request() {
  if (handle_ == nullptr || ucx_is_lost()) return;
  ucp_request_cancel(worker_, handle_);
  ucp_request_free(handle_);  // UCX gives it back when it is through with it
}

// Returns UCS_INPROGRESS for an unfinished request, or how it has just finished.
ucs_status_t Request::poll(ucp_tag_recv_info_t* info) {
  const ucs_status_t status =
      receives_ ? ucp_tag_recv_request_test(handle_, info) : ucp_request_check_status(handle_);
  if (status != UCS_INPROGRESS) ucp_request_free(std::exchange(handle_, nullptr));
  return status;
}

bool Request::test() {
  if (handle_ == nullptr) return true;
  ucp_tag_recv_info_t info{};
  const ucs_status_t status = poll(&info);
  if (status == UCS_INPROGRESS) return false;
  check(status, &info);
  return true;
}

bool Request::over() {
  ucp_tag_recv_info_t info{};
  return handle_ == nullptr || poll(&info) != UCS_INPROGRESS;
}

void Request::check(ucs_status_t status, const ucp_tag_recv_info_t* info) const {
  if (status == UCS_OK && (!receives_ || (info->length == bytes_ && info->sender_tag == tag_))) {
    return;
  }
  if (status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED) {
    fail(ncclInvalidUsage,
         "mismatched calls: a message does not fit the {} bytes that this rank's call expects",
         bytes_);
  }
  fail(ncclRemoteError, "{} failed: {}", receives_ ? "receive" : "send", ucs_status_string(status));
}

// ---- Transport ----

Transport::Transport(int rank, const std::string& device)
    : rank_(rank), context_(ucx_context(device)) {
  try {
    ports_ = std::make_unique<TcpPorts>([this] { return address_ = open_worker(); });
    check_ucx(ucp_worker_get_efd(worker_, &event_fd_), "get UCX's event descriptor");
  } catch (...) {
    close();
    throw;
  }
}

Transport::~Transport() { close(); }

std::string Transport::open_worker() {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  check_ucx(ucp_worker_create(context_.get(), &params, &worker_), "create a UCX worker");
  ucp_address_t* address = nullptr;
  size_t size = 0;
  check_ucx(ucp_worker_get_address(worker_, &address, &size), "get the UCX address");
  std::string text(reinterpret_cast<const char*>(address), size);
  ucp_worker_release_address(worker_, address);
  return text;
}

// The ports come first, behind their size.
std::string Transport::address() const {
  const std::string ports = ports_->text();
  const auto size = static_cast<uint32_t>(ports.size());
  return std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + ports + address_;
}

std::string Transport::connect(const std::vector<std::string>& addresses) {
  std::vector<std::string> ports;
  for (const std::string& text : addresses) {
    uint32_t size = 0;
    require(text.size() > sizeof(size), ncclInternalError, "malformed address of a rank");
    std::memcpy(&size, text.data(), sizeof(size));
    require(size < text.size() - sizeof(size), ncclInternalError, "malformed address of a rank");
    ports.push_back(text.substr(sizeof(size), size));
    connect(text.substr(sizeof(size) + size));
  }
  return TcpPorts::connections_to(ports);
}

int Transport::admit(const std::vector<std::string>& connections) {
  const int missing = ports_->missing(connections);
  if (missing < 0) ports_->close_to_strangers(connections);
  return missing;
}

// Connects to the next rank.
void Transport::connect(const std::string& address) {
  peers_.push_back(std::make_unique<Peer>());
  Peer& peer = *peers_.back();
  peer.transport = this;
  peer.rank = static_cast<int>(peers_.size()) - 1;
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {&on_error, &peer};
  check_ucx(ucp_ep_create(worker_, &params, &peer.endpoint),
            fmt::format("connect to rank {}", peer.rank));
}

void Transport::on_error(void* arg, ucp_ep_h, ucs_status_t status) {
  Peer& peer = *static_cast<Peer*>(arg);
  log(LogLevel::kInfo, peer.transport->rank_, "ucx: rank {}: {}", peer.rank,
      ucs_status_string(status));
  peer.lost = true;
  peer.transport->lost_peers_.push_back({peer.rank, std::chrono::steady_clock::now()});
}

Request Transport::send(int peer, uint64_t tag, const void* data, size_t bytes, bool until_taken) {
  const Peer& to = *peers_[static_cast<size_t>(peer)];
  // UCX 1.13 has given up its list of sends to be acknowledged by now; it would find a later one
  // as the endpoint is destroyed, and abort the process (an assertion in ucp_ep.c).
  if (to.lost) fail(ncclRemoteError, "the connection to rank {} was lost", peer);
  const auto send = until_taken ? &ucp_tag_send_sync_nbx : &ucp_tag_send_nbx;
  ucp_request_param_t param{};
  ucs_status_ptr_t handle = send(to.endpoint, data, bytes, tag, &param);
  Request request;
  request.worker_ = worker_;
  request.bytes_ = bytes;
  if (UCS_PTR_IS_PTR(handle)) {
    request.handle_ = handle;
  } else {
    request.check(UCS_PTR_STATUS(handle), nullptr);
  }
  return request;
}

Request Transport::receive(uint64_t tag, uint64_t matched, void* data, size_t bytes) {
  // Asked to complete at once, UCX 1.13 leaves out what it knows about the message.
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  ucs_status_ptr_t handle = ucp_tag_recv_nbx(worker_, data, bytes, tag, matched, &param);
  if (UCS_PTR_IS_ERR(handle)) check_ucx(UCS_PTR_STATUS(handle), "receive");
  Request request;
  request.handle_ = handle;
  request.worker_ = worker_;
  request.receives_ = true;
  request.tag_ = tag;
  request.bytes_ = bytes;
  return request;
}

void Transport::close() {
  if (worker_ == nullptr) return;
  try {
    if (!ucx_is_lost()) close_worker();
  } catch (const Failure& lost) {
    log(LogLevel::kWarn, rank_, "{}", lost.text());
  }
  if (ucx_is_lost()) {
    keep_for_lost_ucx({worker_, [](void*) {}});
    for (auto& peer : peers_) keep_for_lost_ucx(std::move(peer));
  }
  worker_ = nullptr;
  peers_.clear();
}

void Transport::close_worker() {
  std::vector<void*> closing;
  for (const auto& peer : peers_) {
    if (peer->endpoint == nullptr || !moved_) continue;  // not moved: they go with the worker
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    // Without it, UCX 1.13 aborts the process where a send is left that waits to be taken.
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t handle = ucp_ep_close_nbx(peer->endpoint, &param);
    if (UCS_PTR_IS_PTR(handle)) closing.push_back(handle);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (void* handle : closing) {
    while (ucp_request_check_status(handle) == UCS_INPROGRESS &&
           std::chrono::steady_clock::now() < deadline) {
      progress();
    }
    ucp_request_free(handle);
  }
  ucp_worker_destroy(worker_);
}

}  // namespace hostnccl
