#include <utility>

#include "abi.h"
#include "nccl.h"

AbiFacts our_abi() {
#include "abi_facts.inc"
}
