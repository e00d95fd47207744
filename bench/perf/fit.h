// What curves say of the machine: so a profile that has measured one layout can forecast others.
#pragma once

#include "model/profile.h"

namespace terse::perf {

// From the measured AllReduces of fp32, on several nodes, within one, or both: the links of these
// classes, by the native ones; and what codecs take, by what the compressed ones take beyond their
// bytes on that link; but for calls that stay native, for NCCL sends less between nodes; and what
// fused calls take. Nothing where they are not there. All is within what profiles may say.
void fit(model::Profile* profile);

}  // namespace terse::perf
