#include "cli/step.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "policy/draft.h"
#include "policy/names.h"
#include "policy/toml_file.h"

namespace terse::cli {
namespace {

class StepParser {
 public:
  StepParser(std::string_view text, const std::string& path)
      : file_(text, path), folder_(std::filesystem::path(path).parent_path()) {}

  TrainingStep parse() {
    static constexpr std::string_view kKeys[] = {
        "name", "source", "profile", "ranks", "node_ranks", "pods", "sharing", "compute", "call"};
    for (const Entry& e : TomlFile::entries(file_.table())) {
      file_.find_key(e, kKeys);
      if (e.key == "name") step_.name = file_.text_of(e);
      if (e.key == "source") step_.source = file_.text_of(e);
      if (e.key == "profile") step_.profile = profile_of(e);
      if (e.key == "ranks") step_.ranks = ranks_of(e);
      if (e.key == "node_ranks") step_.node_ranks = ranks_of(e);
      if (e.key == "pods") step_.pods = ranks_of(e);
      if (e.key == "sharing") step_.sharing = ranks_of(e);
      if (e.key == "compute") step_.compute = file_.number_of(e, 0, 1e6);
      if (e.key == "call")
        for (const toml::table* table : file_.tables_of(e)) call(*table);
    }
    if (step_.ranks < 2)
      file_.refuse({1, 1}, "the step has no ranks, of which there are 2 or more");
    if (step_.calls.empty()) file_.refuse({1, 1}, "the step has no [[call]]");
    return std::move(step_);
  }

 private:
  using Entry = TomlFile::Entry;

  // Name of a built-in profile, or path of a file: relative to the step's own.
  std::string profile_of(const Entry& e) const {
    const std::string name = file_.text_of(e);
    const std::filesystem::path own = folder_ / name;
    return std::filesystem::is_regular_file(own) ? own.string() : name;
  }

  int ranks_of(const Entry& e) const { return static_cast<int>(file_.whole_of(e, 1, 65536)); }

  void call(const toml::table& table) {
    static constexpr std::string_view kKeys[] = {"collective", "bytes", "dtype",
                                                 "scheme",     "times", "beside"};
    StepCall call;
    unsigned seen = 0;
    for (const Entry& e : TomlFile::entries(table)) {
      seen |= 1u << file_.find_key(e, kKeys);
      if (e.key == "bytes")
        call.bytes = file_.number_of(e, 1, 0x1p47);
      else if (e.key == "times" || e.key == "beside")
        (e.key == "times" ? call.times : call.beside) = file_.number_of(e, 0, 1e6);
      else
        at(file_.place(e.value->source().begin),
           [&, text = file_.text_of(e)] { set(e.key, text, call); });
    }
    for (size_t i = 0; i < 4; ++i)
      if (!(seen >> i & 1)) file_.refuse(table.source().begin, "the call has no {}", kKeys[i]);
    step_.calls.push_back(std::move(call));
  }

  // Sets what names identify.
  static void set(std::string_view key, const std::string& name, StepCall& call) {
    if (key == "collective") {
      call.collective = find_collective(name);
      if (plan::is_point_to_point(call.collective))
        fail(ncclInvalidArgument, "the collective is between two ranks");
    } else if (key == "dtype") {
      call.dtype = find_compressed_dtype(name);
    } else {
      call.scheme = parse_scheme(name);
      if (call.scheme.automatic) fail(ncclInvalidArgument, "the scheme names no format, nor off");
    }
  }

  const TomlFile file_;
  const std::filesystem::path folder_;
  TrainingStep step_;
};

}  // namespace

TrainingStep read_step(const std::string& path) {
  return StepParser(text_of_file(path, "a training step"), path).parse();
}

}  // namespace terse::cli
