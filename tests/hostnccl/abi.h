// Every size, offset and value that a binary depends on, as one header declares it. Included after
// an nccl.h by translation units that see different ones.
#pragma once

#include <cstddef>
#include <map>
#include <string>

using AbiFacts = std::map<std::string, long long>;
AbiFacts our_abi();
AbiFacts real_abi();

#define ABI_SIZE(facts, type) facts["sizeof " #type] = static_cast<long long>(sizeof(type))
#define ABI_VALUE(facts, name) facts[#name] = static_cast<long long>(name)
#define ABI_FIELD(facts, type, field)                                                \
  facts["offset " #type "." #field] = static_cast<long long>(offsetof(type, field)), \
                            facts["size " #type "." #field] =                        \
                                static_cast<long long>(sizeof(std::declval<type>().field))
