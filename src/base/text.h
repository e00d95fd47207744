// What messages, log lines and reports are made of: text of other people's is printed so that it
// does nothing to a terminal, and fills no more of it than it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terse {

// Without control characters, which are as in C's literals: "\n", "\x1b". So are bytes that are no
// UTF-8.
std::string printable(std::string_view text);

// Its beginning, and how much it is, where that is more than `most` characters:
// "aaaa... (1000 characters)".
std::string shortened(std::string_view text, size_t most = 100);

// Its beginning and its end the same, where a message may quote anything.
std::string shortened_within(std::string_view text, size_t most);

// "1 call", "2 calls".
std::string counted(uint64_t number, std::string_view noun);

}  // namespace terse
