#include <utility>

#include "abi.h"
#include "nccl.h"

AbiFacts OurAbi() {
#include "abi_facts.inc"
}
