#include "policy/reasons.h"

#include <iterator>

#include "terse/terse.h"

namespace terse {

const char* bypass_reason(int reason) {
  static constexpr const char* kReasons[] = {"no rule asks for it, or it is off",
                                             "the datatype is not compressed",
                                             "the operation is not compressed",
                                             "the message is small",
                                             "there is no other rank",
                                             "a rank lacked the memory for it",
                                             "NCCL sends less between nodes",
                                             "the scheme is for other collectives",
                                             "native is predicted to be as fast",
                                             "the ranks do not hold the same",
                                             "what stays exact and the codes are as much",
                                             "the call's configuration is for NCCL",
                                             "it is only observed",
                                             "native is predicted to be faster"};
  static_assert(std::size(kReasons) == TERSE_BYPASS_REASONS);
  return reason >= 0 && reason < TERSE_BYPASS_REASONS ? kReasons[reason] : "unknown";
}

}  // namespace terse
