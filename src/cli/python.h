// Python of a program, and the packages that it would find.
#pragma once

#include <filesystem>
#include <string>

namespace terse::cli {

// Path of a program as execvp finds it; "": not found.
std::filesystem::path find_program(const std::string& name);

// NCCL among the packages of the Python that the program is, or is a script for, such as torchrun;
// "" if that is not certain, or if the PyTorch among them uses another one.
std::string nccl_of_python(const std::filesystem::path& program);

}  // namespace terse::cli
