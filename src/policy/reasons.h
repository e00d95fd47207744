// Phrases for bypass reasons (terse.h), in terseBypassReasonString() and reports.
#pragma once

namespace terse {

const char* bypass_reason(int reason);

}  // namespace terse
