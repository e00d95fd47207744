// Texts of schemes, rules and sizes for the subcommands.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.h"

namespace terse::cli {

// "8.25 bits an element: 1/3.88 of fp32, 1/1.94 of fp16 and bf16"; not for off.
std::string density(const Scheme& scheme);

// "64 MiB (67108864 B)", or the bytes alone if they are few.
std::string bytes_text(uint64_t bytes);

// "int8,int4:block=64,round=shift" -> "int8", "int4:block=64,round=shift": a comma before a key, or
// a number, is its scheme's.
std::vector<std::string> split_schemes(const std::string& text);

// `text` within single quotes, escaped as a shell does.
std::string quoted(std::string_view text, std::string_view quote);

// Word as a shell reads it: in quotes if it needs them.
std::string shell_word(const std::string& word);

// Prints the rules, a line each, and their warnings.
void print_rules(const Policy& policy);
void print_warnings(const Policy& policy, std::FILE* to);

// Throws std::system_error if output could not be written.
void flush_output();

}  // namespace terse::cli
