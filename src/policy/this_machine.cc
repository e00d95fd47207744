#include "policy/this_machine.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace terse {
namespace {

namespace fs = std::filesystem;

// First line of a file; "": it cannot be read.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

template <class Visit>
void for_each_in(const fs::path& folder, const Visit& visit) {
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) visit(entry->path());
}

// Number at the begin of a text; 0: there is none, or it is negative, as of a card without a link.
uint64_t number_in(const std::string& text) {
  const double number = std::strtod(text.c_str(), nullptr);
  return number > 0 && number < 1e9 ? static_cast<uint64_t>(number) : 0;
}

// Example of a rate: "400 Gb/sec (4X NDR)"; of a state: "4: ACTIVE".
uint64_t gigabits_of_ports(const fs::path& sys) {
  uint64_t sum = 0;
  for_each_in(sys / "class/infiniband", [&](const fs::path& device) {
    for_each_in(device / "ports", [&](const fs::path& port) {
      if (line_of(port / "state").starts_with("4")) sum += number_in(line_of(port / "rate"));
    });
  });
  return sum;
}

// A speed is in Mbit/s. Cards alone have a device: bridges and tunnels do not.
uint64_t gigabits_of_cards(const fs::path& sys) {
  uint64_t sum = 0;
  for_each_in(sys / "class/net", [&](const fs::path& card) {
    std::error_code error;
    if (fs::exists(card / "device", error) && line_of(card / "operstate") == "up")
      sum += number_in(line_of(card / "speed"));
  });
  return sum / 1000;
}

}  // namespace

uint64_t network_gigabits(const std::string& sys) {
  const uint64_t ports = gigabits_of_ports(sys);
  return ports != 0 ? ports : gigabits_of_cards(sys);
}

std::string gpu_name(const std::string& proc) {
  constexpr std::string_view kModel = "Model:";  // on the first line
  std::string name;
  for_each_in(fs::path(proc) / "driver/nvidia/gpus", [&](const fs::path& gpu) {
    const std::string line = line_of(gpu / "information");
    const size_t begin = line.find_first_not_of(" \t", kModel.size());
    if (line.starts_with(kModel) && begin != line.npos) name = line.substr(begin);
  });
  return name;
}

}  // namespace terse
