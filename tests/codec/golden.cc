#include "golden.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace terse::codec {
namespace {

// 32 bytes a line, in groups of four.
void print_bytes(std::ostream& out, const char* key, const Bytes& bytes) {
  out << key << "\n";
  char hex[3];
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::snprintf(hex, sizeof hex, "%02x", bytes[i]);
    out << (i % 32 == 0 ? "  " : i % 4 == 0 ? " " : "") << hex;
    if (i % 32 == 31 || i + 1 == bytes.size()) out << "\n";
  }
}

void parse_bytes(std::string line, Bytes& bytes) {
  line.erase(std::remove(line.begin(), line.end(), ' '), line.end());
  for (size_t i = 0; i + 1 < line.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(line.substr(i, 2), nullptr, 16)));
}

Dtype parse_dtype(const std::string& name) {
  for (Dtype dtype : kAllDtypes)
    if (name == name_of(dtype)) return dtype;
  throw std::runtime_error("unknown element type " + name);
}

}  // namespace

std::string print(const Golden& g) {
  std::ostringstream out;
  out << "[" << g.name << "]\n# " << g.about << "\n";
  if (g.kind() == "encode") out << "scheme " << g.scheme << "\ndraw " << g.draw << "\n";
  if (g.kind() == "refuse") {
    out << "message " << g.message << "\n";
  } else {
    out << "type " << name_of(g.dtype) << "\ncount " << g.count << "\n";
    print_bytes(out, "elements", g.elements);
  }
  print_bytes(out, "packed", g.packed);
  return out.str();
}

std::vector<Golden> parse_goldens(const std::string& file, const std::string& text) {
  std::vector<Golden> goldens;
  Bytes* bytes = nullptr;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('[') && line.ends_with(']')) {
      goldens.push_back({.file = file, .name = line.substr(1, line.size() - 2)});
      bytes = nullptr;
      continue;
    }
    if (line.empty()) continue;
    if (goldens.empty()) throw std::runtime_error(file + ": no case at the top");
    Golden& g = goldens.back();
    const size_t space = line.find(' ');
    const std::string key = line.substr(0, space);
    const std::string value = space == line.npos ? "" : line.substr(space + 1);
    if (key == "#")
      g.about = value;
    else if (key.empty() && bytes != nullptr)
      parse_bytes(value, *bytes);
    else if (key == "scheme")
      g.scheme = value;
    else if (key == "draw")
      g.draw = std::stoull(value);
    else if (key == "type")
      g.dtype = parse_dtype(value);
    else if (key == "count")
      g.count = std::stoull(value);
    else if (key == "message")
      g.message = value;
    else if (key == "elements")
      bytes = &g.elements;
    else if (key == "packed")
      bytes = &g.packed;
    else
      throw std::runtime_error(g.path() + ": what is \"" + line + "\"?");
  }
  return goldens;
}

std::vector<Golden> read_goldens(const std::string& directory, const std::string& kind) {
  namespace fs = std::filesystem;
  std::vector<Golden> goldens;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(directory) / "codec" / kind)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const fs::path name = entry.path().lexically_relative(fs::path(directory) / "codec");
    const std::string file = (name.parent_path() / name.stem()).string();
    for (Golden& g : parse_goldens(file, text.str())) goldens.push_back(std::move(g));
  }
  return goldens;
}

void write_goldens(const std::string& directory, const std::vector<Golden>& goldens) {
  namespace fs = std::filesystem;
  std::map<std::string, std::map<std::string, std::string>> files;
  for (const Golden& g : goldens) files[g.file][g.name] = print(g);
  fs::remove_all(fs::path(directory) / "codec");
  for (const auto& [file, cases] : files) {
    const fs::path path = fs::path(directory) / "codec" / (file + ".txt");
    fs::create_directories(path.parent_path());
    std::ofstream out(path);
    const char* separator = "";
    for (const auto& [name, text] : cases) {
      out << separator << text;
      separator = "\n";
    }
  }
}

Spec parse_spec(const std::string& scheme, uint64_t* seed) {
  const size_t at = scheme.find(",seed="), block = scheme.find("block=");
  if (at == scheme.npos) throw std::runtime_error("what is the scheme " + scheme + "?");
  *seed = std::stoull(scheme.substr(at + 6));
  const size_t elements = block == scheme.npos ? 32 : std::stoul(scheme.substr(block + 6));
  for (const Spec& spec : every_spec(elements))
    if (describe(spec) == scheme.substr(0, at)) return spec;
  throw std::runtime_error("unknown scheme " + scheme);
}

}  // namespace terse::codec
