// Text of messages, log lines and reports: text of other people's is printed so that it does
// nothing to a terminal, and fills no more of it than it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace terse {

// Without control characters, which are as in C's literals: "\n", "\x1b". So are bytes that are no
// UTF-8.
std::string printable(std::string_view text);

// Shortens a text of more than `most` characters to its beginning and its length: "aaaa... (1000
// characters)".
std::string shortened(std::string_view text, size_t most = 100);

// Shortens a text to its beginning and its end, for a message that may quote anything.
std::string shortened_within(std::string_view text, size_t most);

// "1 call", "2 calls".
std::string counted(uint64_t number, std::string_view noun);

}  // namespace terse
