// How a file is written: whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace terse {

// Puts the text in place of the file in one step, whoever else does. A link stays, and what is no
// file, such as /dev/stdout, is written to. Throws terse::Error.
void write_file(const std::filesystem::path& path, const std::string& text);

// Makes an empty file where there is none; follows no link. Does nothing where that cannot be.
void leave_mark(const std::string& path);
// Mark, beside another one, of a process that has compressed a call.
inline std::string compressed_mark(const std::string& mark) { return mark + ".compressed"; }

// Throws where write_file() would, as far as that shows before. Leaves all as it is.
void require_writable(const std::filesystem::path& path);

}  // namespace terse
