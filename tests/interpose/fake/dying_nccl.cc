// hostnccl, under which the process is killed at its DYING_GROUP-th group of calls, counted from 1:
// before NCCL has the group, or when its messages have come and gone, where DYING_AFTER is set.
// With DYING_PAUSE it is only late there, by so many milliseconds. Writes how many groups there
// were to the file DYING_COUNT, where one is named.
#include <hostnccl.h>
#include <nccl.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

extern "C" {
// Not by the names that a preload library may have.
extern decltype(ncclGroupEnd) pncclGroupEnd;
extern decltype(ncclSend) pncclSend;
}

namespace {

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class Groups {
 public:
  ~Groups() {
    const char* const path = setting("DYING_COUNT");
    if (*path == '\0') return;
    std::FILE* const file = std::fopen(path, "w");
    std::fprintf(file, "%ld\n", count_);
    std::fclose(file);
  }

  void sent_on(cudaStream_t stream) { stream_ = stream; }

  ncclResult_t end() {
    const bool is_last = ++count_ == last_;
    if (is_last && !after_) die();
    const ncclResult_t result = pncclGroupEnd();
    if (is_last && after_) {
      hostncclStreamSynchronize(stream_);
      die();
    }
    return result;
  }

 private:
  void die() const {
    if (pause_ == 0) std::raise(SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_));
  }

  const long last_ = std::atol(setting("DYING_GROUP"));
  const bool after_ = *setting("DYING_AFTER") != '\0';
  const long pause_ = std::atol(setting("DYING_PAUSE"));
  long count_ = 0;
  cudaStream_t stream_ = nullptr;
};

Groups& groups() {
  static Groups all;
  return all;
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED ncclResult_t ncclGroupEnd() { return groups().end(); }

EXPORTED ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t datatype, int peer,
                               ncclComm_t comm, cudaStream_t stream) {
  groups().sent_on(stream);
  return pncclSend(data, count, datatype, peer, comm, stream);
}
