#include "program.h"

#include <fmt/format.h>

#include <stdexcept>

namespace terse::machine {
namespace {

constexpr uint32_t kInstructionBytes = 16;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "/*00c0*/ rest": removes the address. Returns false if there is none.
bool take_address(std::string_view& line, uint32_t& address) {
  if (!line.starts_with("/*")) return false;
  const size_t end = line.find("*/");
  if (end == line.npos) return false;
  address = static_cast<uint32_t>(std::stoul(std::string(line.substr(2, end - 2)), nullptr, 16));
  line = trimmed(line.substr(end + 2));
  return true;
}

class Reader {
 public:
  Program read(std::istream& listing) {
    int number = 0;
    for (std::string line; std::getline(listing, line);) {
      ++number;
      try {
        read_line(trimmed(line));
      } catch (const std::exception& e) {
        throw std::invalid_argument(fmt::format("line {}: {}", number, e.what()));
      }
    }
    if (program_.instructions.empty()) throw std::invalid_argument("no instructions");
    if (program_.parameter_bytes == 0) throw std::invalid_argument("no place of the parameters");
    resolve_labels();
    for (const std::string& end : ends_) label(end);
    return std::move(program_);
  }

 private:
  enum class Section { kOther, kText, kConstant, kShared };

  void read_line(std::string_view line) {
    if (line.starts_with(".target")) {
      const size_t at = line.find("sm_");
      program_.architecture = std::stoi(std::string(line.substr(at + 3)));
    } else if (line.starts_with(".section\t")) {
      begin_section(trimmed(line.substr(sizeof ".section\t" - 1)));
    } else if (line.find("EIATTR_PARAM_CBANK") != line.npos) {
      shorts_ = 0;
      in_parameters_ = true;
    } else if (section_ == Section::kText) {
      read_text(line);
    } else if (section_ == Section::kConstant) {
      read_bytes(line);
    } else if (section_ == Section::kShared && line.starts_with(".zero")) {
      program_.shared_bytes += static_cast<uint32_t>(std::stoul(std::string(line.substr(5))));
    } else if (in_parameters_) {
      read_parameters(line);
    }
  }

  void begin_section(std::string_view name) {
    name = name.substr(0, name.find(','));
    in_parameters_ = false;
    section_ = Section::kOther;
    if (name.starts_with(".text.")) {
      section_ = Section::kText;
      program_.name = name.substr(sizeof ".text." - 1);
    } else if (name.starts_with(".nv.shared.") && !name.starts_with(".nv.shared.reserved")) {
      section_ = Section::kShared;
    } else if (name.starts_with(".nv.constant") && !name.starts_with(".nv.constant0")) {
      section_ = Section::kConstant;
      bank_ = static_cast<uint32_t>(std::stoul(std::string(name.substr(12))));
    }
  }

  void read_text(std::string_view line) {
    uint32_t address = 0;
    if (take_address(line, address)) {
      const size_t end = line.find(';');
      if (end == line.npos) throw std::invalid_argument("no end of " + std::string(line));
      if (address != next_address())
        throw std::invalid_argument(fmt::format("no instruction before {:#x}", address));
      program_.instructions.push_back(parse_instruction(trimmed(line.substr(0, end))));
      program_.instructions.back().address = address;
    } else if (line.starts_with(".size")) {  // NAME,(END - NAME)
      const size_t begin = line.find('(') + 1;
      ends_.emplace_back(line.substr(begin, line.find(' ', begin) - begin));
    } else if (line.ends_with(':')) {
      labels_[std::string(line.substr(0, line.size() - 1))] = next_address();
    }
  }

  void read_bytes(std::string_view line) {
    uint32_t address = 0;
    if (!take_address(line, address)) return;
    if (!line.starts_with(".byte")) throw std::invalid_argument("constants that are no bytes");
    if (address != program_.constants[bank_].size())
      throw std::invalid_argument(fmt::format("no constant before {:#x}", address));
    for (size_t at = line.find("0x"); at != line.npos; at = line.find("0x", at + 2))
      program_.constants[bank_].push_back(
          static_cast<uint8_t>(std::stoul(std::string(line.substr(at, 4)), nullptr, 16)));
  }

  // After its header: a symbol, the offset, the size.
  void read_parameters(std::string_view line) {
    uint32_t address = 0;
    if (!take_address(line, address) || !line.starts_with(".short")) return;
    const std::string_view value = trimmed(line.substr(6));
    if (value.starts_with('(')) return;
    const auto number = static_cast<uint32_t>(std::stoul(std::string(value), nullptr, 16));
    (shorts_ == 0 ? program_.parameter_offset : program_.parameter_bytes) = number;
    in_parameters_ = ++shorts_ < 2;
  }

  void resolve_labels() {
    for (Instruction& instruction : program_.instructions)
      for (Operand& operand : instruction.operands)
        if (operand.kind == Kind::kLabel) operand.value = label(operand.name);
  }

  uint32_t label(const std::string& name) const {
    const auto found = labels_.find(name);
    if (found == labels_.end()) throw std::invalid_argument("label not known: " + name);
    return found->second;
  }

  uint32_t next_address() const {
    return static_cast<uint32_t>(program_.instructions.size()) * kInstructionBytes;
  }

  Program program_{};
  std::map<std::string, uint32_t> labels_;
  Section section_ = Section::kOther;
  std::vector<std::string> ends_;  // labels after the last instructions of functions
  uint32_t bank_ = 0;
  bool in_parameters_ = false;
  int shorts_ = 0;
};

}  // namespace

Program read_program(std::istream& listing) { return Reader().read(listing); }

}  // namespace terse::machine
