// The Python that a program runs on, and the packages that it would find.
#pragma once

#include <filesystem>
#include <string>

namespace terse::cli {

// As execvp finds it; "" where it is not found.
std::filesystem::path find_program(const std::string& name);

// The NCCL among the packages of the Python that the program is, or is a script for, such as
// torchrun; "" where that is not certain, or the PyTorch among them uses another one.
std::string nccl_of_python(const std::filesystem::path& program);

}  // namespace terse::cli
