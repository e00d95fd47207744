// libterse as a table, loaded only when --scheme asks for it: without, these programs are plain
// NCCL programs, and what a preloaded library does to them is what it does to any other.
#pragma once

#include <nccl.h>
#include <terse/terse.h>

#include <memory>
#include <string>

namespace terse::perf {

struct TerseApi {
  decltype(&terseSchemeParse) scheme_parse;
  decltype(&terseSchemeDestroy) scheme_destroy;
  decltype(&terseSchemePrint) scheme_print;
  decltype(&terseAllReduce) all_reduce;
  decltype(&terseAllGather) all_gather;
  decltype(&terseReduceScatter) reduce_scatter;
  decltype(&terseBroadcast) broadcast;
  decltype(&terseReduce) reduce;
  decltype(&terseAllToAll) all_to_all;
  decltype(&terseGather) gather;
  decltype(&terseScatter) scatter;
  decltype(&terseSend) send;
  decltype(&terseRecv) recv;
  decltype(&terseGroupStart) group_start;
  decltype(&terseGroupEnd) group_end;
  decltype(&terseCommRelease) comm_release;
  decltype(&terseCommGetStats) comm_get_stats;
  decltype(&terseGetLastError) get_last_error;
};

// Loads libterse.so from ../lib beside the program, or from wherever the loader finds it. Throws
// std::runtime_error saying what was tried. It stays loaded.
const TerseApi& load_terse();

// A parsed scheme and its canonical text.
class Scheme {
 public:
  Scheme(const TerseApi& api, const std::string& text);  // throws std::invalid_argument

  const TerseApi& api() const { return api_; }
  const terseScheme_t* get() const { return handle_.get(); }
  const std::string& text() const { return text_; }
  bool lossless() const { return text_ == "off"; }

 private:
  const TerseApi& api_;
  std::unique_ptr<terseScheme_t, decltype(&terseSchemeDestroy)> handle_;
  std::string text_;
};

}  // namespace terse::perf
