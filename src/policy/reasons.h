// The phrases for bypass reasons (terse.h), as terseBypassReasonString() and reports have them.
#pragma once

namespace terse {

const char* bypass_reason(int reason);

}  // namespace terse
