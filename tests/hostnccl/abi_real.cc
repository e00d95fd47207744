#include <nccl.h>

#include <utility>

#include "abi.h"

AbiFacts real_abi() {
#include "abi_facts.inc"
}
