#include "kernel_listings.h"

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>

namespace terse::machine {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  if (text == nullptr) throw std::invalid_argument("no name of a function: " + name);
  std::string all = text.get();
  all.resize(all.rfind('('));
  return all.starts_with("void ") ? all.substr(5) : all;
}

// Files by name.
const std::map<std::string, std::string>& index() {
  static const auto all = [] {
    std::map<std::string, std::string> files;
    std::ifstream file(listings() + "/index");
    if (!file) throw std::invalid_argument("no machine code in " + listings());
    for (std::string number, name; file >> number >> name;)
      files[demangled(name)] = listings() + "/" + number + ".sass";
    return files;
  }();
  return all;
}

}  // namespace

const std::string& listings() {
  static const std::string folder = [] {
    const char* const value = std::getenv("TERSE_MACHINE_CODE");
    return std::string(value == nullptr ? "." : value);
  }();
  return folder;
}

std::vector<std::string> kernel_names() {
  std::vector<std::string> names;
  for (const auto& [name, file] : index()) names.push_back(name);
  return names;
}

bool has_kernel(const std::string& name) { return index().contains(name); }

Program& kernel(const std::string& name) {
  static std::map<std::string, Program> read;
  const auto known = read.find(name);
  if (known != read.end()) return known->second;
  const auto found = index().find(name);
  if (found == index().end()) throw std::invalid_argument("no machine code of " + name);
  std::ifstream file(found->second);
  try {
    return read.emplace(name, read_program(file)).first->second;
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(found->second + ", " + e.what());
  }
}

}  // namespace terse::machine
