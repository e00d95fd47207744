// What the worker program and the tests that start it agree on.
#ifndef HOSTNCCL_TESTS_WORKER_H_
#define HOSTNCCL_TESTS_WORKER_H_

namespace hostnccl_test {

inline constexpr int kRemoteError = 42;  // exit status: a peer was lost, and all calls said so

}  // namespace hostnccl_test

#endif  // HOSTNCCL_TESTS_WORKER_H_
