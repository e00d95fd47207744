#include "communicator.h"

#include <c10/util/Exception.h>

#include <utility>

#include "call_group.h"
#include "errors.h"

namespace torch_hostnccl {
namespace {

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(hostncclStreamCreate(&stream), "hostncclStreamCreate");
  return stream;
}

ncclConfig_t config_of(const std::string& name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  if (!name.empty()) config.commName = name.c_str();
  return config;
}

ncclComm_t init(const ncclUniqueId& id, int rank, int size, const std::string& name) {
  const OutsideOfGroups now;
  ncclConfig_t config = config_of(name);
  ncclComm_t comm = nullptr;
  check(ncclCommInitRankConfig(&comm, size, id, rank, &config), "ncclCommInitRankConfig");
  return comm;
}

}  // namespace

Communicator::Communicator(const ncclUniqueId& id, int rank, int size, const std::string& name)
    : Communicator(init(id, rank, size, name), rank) {}

Communicator::Communicator(ncclComm_t comm, int rank)
    : rank_(rank), comm_(comm), stream_(make_stream()) {}

Communicator::~Communicator() {
  abort("it was not shut down");
  end_stream();
}

std::shared_ptr<Communicator> Communicator::split(int color, int key, const std::string& name) {
  const OutsideOfGroups now;
  ncclConfig_t config = config_of(name);
  ncclComm_t part = nullptr;
  check(ncclCommSplit(handle(), color, key, &part, &config), "ncclCommSplit");
  return part == nullptr ? nullptr : std::make_shared<Communicator>(part, key);
}

ncclComm_t Communicator::handle() const {
  ncclComm_t comm = comm_;
  if (comm == nullptr) {
    throw_backend_error(c10::str("NCCL communicator was aborted on rank ", rank_, ": ", reason()));
  }
  return comm;
}

ncclComm_t Communicator::take(const std::string& reason) {
  std::lock_guard lock(mutex_);
  ncclComm_t comm = comm_.exchange(nullptr);
  if (comm != nullptr) reason_ = reason;
  return comm;
}

void Communicator::abort(const std::string& reason) {
  if (ncclComm_t comm = take(reason)) ncclCommAbort(comm);
}

std::string Communicator::reason() const {
  std::lock_guard lock(mutex_);
  return reason_;
}

void Communicator::finalize() {
  const ncclResult_t last = stream_ == nullptr ? ncclSuccess : hostncclStreamSynchronize(stream_);
  if (last != ncclSuccess && reason().empty()) {
    TORCH_WARN("hostnccl: ", describe(last, "a call, for which perhaps nothing has waited,"));
  }
  if (ncclComm_t comm = comm_) ncclCommFinalize(comm);
}

void Communicator::close() {
  if (ncclComm_t comm = take("its group was shut down")) ncclCommDestroy(comm);
  end_stream();
}

void Communicator::end_stream() {
  if (cudaStream_t stream = std::exchange(stream_, nullptr)) hostncclStreamDestroy(stream);
}

}  // namespace torch_hostnccl
