// Writes the packed buffers of the golden files as seeds for decode_fuzz.
//
//   decode_corpus GOLDEN_DIRECTORY OUTPUT_DIRECTORY
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace fs = std::filesystem;

// The bytes below the line "packed".
std::string packed_bytes(const fs::path& file) {
  std::ifstream in(file);
  std::string line, bytes;
  while (std::getline(in, line) && line != "packed") continue;
  while (std::getline(in, line)) {
    std::string digits;
    for (char c : line)
      if (c != ' ') digits += c;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: decode_corpus GOLDEN_DIRECTORY OUTPUT_DIRECTORY\n", stderr);
    return 2;
  }
  int number = 0;
  fs::create_directories(argv[2]);
  for (const auto& entry : fs::recursive_directory_iterator(argv[1])) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().parent_path().stem() / entry.path().stem();
    std::string file = name;
    for (char& c : file)
      if (c == '/') c = '-';
    // The first byte: element type and so on, each in its turn.
    const std::string seed = static_cast<char>(number++) + packed_bytes(entry.path());
    std::ofstream(fs::path(argv[2]) / file, std::ios::binary) << seed;
  }
}
