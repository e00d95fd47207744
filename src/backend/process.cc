#include "backend/process.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

namespace terse {

bool Process::lives() const {
  const State now = state();
  return now.letter != 0 && now.letter != 'Z' && now.letter != 'X' && now.begin == begin_;
}

Process::State Process::state() const {
  std::ifstream file(fmt::format("/proc/{}/stat", id_));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // of its program, with any characters
  if (name_end == std::string::npos) return {};
  constexpr int kBegin = 22, kLetter = 3;  // fields, from 1
  std::istringstream fields(text.substr(name_end + 1));
  State state;
  fields >> state.letter;
  for (int field = kLetter; field < kBegin && fields; ++field) fields >> state.begin;
  return state;
}

}  // namespace terse
