// What the worker program and the tests that start it agree on.
#pragma once

namespace hostnccl_test {

inline constexpr int kRemoteError = 42;  // exit status: a peer was lost, and all calls said so

}  // namespace hostnccl_test
