#include <nccl.h>

#include <utility>

#include "abi.h"

AbiFacts RealAbi() {
#include "abi_facts.inc"
}
